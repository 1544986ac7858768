"""Messages of an installed client about faults of its machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.packages.accounts import Account, account, assert_told, line_of
from tests.packages.machines import OLDEST_GLIBC, machine
from tests.packages.remote import PROGRAMS, USER, Remote
from tests.system.conftest import Pool

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
]
MEMORY = f"busbar run -p 25 --timeout 60s -- {PROGRAMS}/gpu_demo memory"
WORK = f"busbar run -p 25 --timeout 60s -- {PROGRAMS}/gpu_demo work"
ENDED_BY_BUSBAR = 143
CLOSED_PORT = 9
CURL_FAILED_TO_CONNECT = 7


def login(pool: Pool, url: str = "", fingerprint: str = "") -> str:
    found = fingerprint or pool.stack.ca_fingerprint()
    return f"busbar login {url or pool.stack.url} --ca-sha256 {found} --token-stdin"


def run_as_mounted(
    remote: Remote, mount: str, script: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a script of the user where root has changed a mount, which ends with the script."""
    root = Account(remote.machine, "root")
    switch = f"exec setpriv --reuid {USER} --regid {USER} --init-groups"
    line = f"{mount} && {switch} env HOME={remote.user.home} sh -c '{script}'"
    path = f"{remote.user.home}/.local/bin:/usr/bin:/bin"
    return root.run('unshare -m sh -c "$LINE"', stdin=stdin, LINE=line, PATH=path)


def assert_works(process: subprocess.Popen[str]) -> None:
    """Block until a program has its first result."""
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "working", process.communicate()[1]


@pytest.mark.parametrize("script", [MEMORY, "busbar gpu list", "busbar doctor"])
def test_machine_without_a_network_is_told(remote: Remote, script: str) -> None:
    done = remote.user.run(script, network=False)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert remote.pool.stack.url.partition("//")[2] in said and "Traceback" not in said


def test_line_without_a_network_leaves_nothing(remote: Remote) -> None:
    user = account(remote.machine, "offline")
    assert_told(user.run(line_of(remote.pool), network=False), CURL_FAILED_TO_CONNECT, "curl: ")
    assert "busbar" not in user.run_well("ls -A /tmp ~")


def test_closed_port_and_wrong_fingerprint_send_no_token(remote: Remote) -> None:
    pool = remote.pool
    closed = f"{pool.stack.url.rpartition(':')[0]}:{CLOSED_PORT}"
    done = remote.user.run(login(pool, closed), stdin="token\n")
    assert_told(done, 1, closed)
    done = remote.user.run(login(pool, fingerprint="0" * 64), stdin="token\n")
    assert_told(done, 5, "CA fingerprint mismatch", "No credentials were sent.")


def test_programs_run_with_a_read_only_home_and_sign_in_names_another_file(
    remote: Remote,
) -> None:
    home = remote.user.home
    mount = f"mount --bind {home} {home} && mount -o remount,bind,ro {home}"
    done = run_as_mounted(remote, mount, MEMORY)
    assert done.returncode == 0, done.stderr
    token = remote.pool.token(USER, "user")
    done = run_as_mounted(remote, mount, login(remote.pool), f"{token}\n")
    assert_told(done, 1, "Cannot write the credentials", "Set BUSBAR_CONTEXT to a file")


def test_programs_run_with_a_temporary_folder_that_is_mounted_noexec(remote: Remote) -> None:
    numba = f"busbar run -p 25 --timeout 60s -- python3 {PROGRAMS}/numba_demo.py saxpy"
    mount = "mount -t tmpfs -o noexec,mode=1777 none /tmp"
    done = run_as_mounted(remote, mount, f"{MEMORY} && {numba}")
    assert done.returncode == 0, done.stderr
    assert "saxpy is correct" in done.stdout


def test_token_that_ends_while_a_program_runs_ends_the_program_with_the_reason(
    remote: Remote,
) -> None:
    token = remote.pool.api.request("POST", "tokens", {"name": "short", "lifetime_seconds": 3600})
    variables = {"BUSBAR_URL": remote.pool.stack.url, "BUSBAR_TOKEN": token["token"]}
    variables["BUSBAR_CA"] = "/opt/ca.pem"
    ca_pem = (remote.pool.stack.appliance_data / "ca.pem").read_text()
    remote.machine.path("/opt/ca.pem").write_text(ca_pem)
    process = remote.user.start(f"{WORK} 300", **variables)
    assert_works(process)
    remote.pool.api.request("DELETE", f"tokens/{token['id']}")
    out, errors = process.communicate(timeout=60)
    done = subprocess.CompletedProcess(WORK, process.returncode, out, errors)
    assert_told(done, ENDED_BY_BUSBAR, "busbar: ", "BUSBAR_TOKEN")


def test_new_version_is_installed_and_used_while_a_program_of_the_one_before_runs(
    remote: Remote,
) -> None:
    user, archive = remote.user, remote.served / "busbar-client.tar.gz"
    before, content = user.run_well("readlink .local/bin/busbar"), archive.read_bytes()
    running = user.start(f"{WORK} 20")
    assert_works(running)
    try:
        archive.write_bytes(content + b"\0" * 512)  # at the end of the compressed archive
        user.run_well(line_of(remote.pool))
    finally:
        archive.write_bytes(content)
    assert user.run_well("readlink .local/bin/busbar") != before
    assert '"total_bytes"' in user.run_well(MEMORY)
    out, errors = running.communicate(timeout=120)
    assert running.returncode == 0 and "correct after" in out, errors


def test_versions_of_the_package_and_of_a_folder_run_programs_at_once(remote: Remote) -> None:
    root = Account(remote.machine, "root")
    root.run_well(line_of(remote.pool))
    both = [remote.user.start(line) for line in (MEMORY, f"/usr/bin/{MEMORY}")]
    for process in both:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0 and '"total_bytes"' in out, errors


def test_script_on_a_system_that_is_too_old_names_what_it_needs(
    remote: Remote, tmp_path: Path
) -> None:
    with machine(OLDEST_GLIBC, tmp_path / "machine") as old:
        user = account(old, USER)
        assert_told(user.run(line_of(remote.pool)), 1, "client.sh: Python 3.10 or later is needed")
        assert "busbar" not in user.run_well("ls -A /tmp ~")
