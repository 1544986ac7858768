"""`busbar doctor` at a running stack, as it is and with faults."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.fleet.certificates import create_authority
from deploy.supervisor import BUILD, ROOT
from remoting.cli import doctor_appliance
from remoting.cli.api import Context
from remoting.cli.doctor_command import findings
from remoting.cli.doctor_finding import Finding
from remoting.cli.run_command import LeaseKeeper, environment
from remoting.cli.ticket_file import TicketFile
from tests.remoting.node import EVENT_SECONDS
from tests.system.command import PROCESS, Done, busbar
from tests.system.conftest import Pool

pytestmark = pytest.mark.system

DOCTOR = (*PROCESS, "doctor")
REMOTE = ["appliance port", "certificate", "clock", "sign-in", "projects", "versions"]
ELSEWHERE = "LD_LIBRARY_PATH=/opt/solver/lib"


@pytest.fixture
def settled(pool: Pool) -> Iterator[Pool]:
    yield pool
    pool.settle()


@pytest.fixture(autouse=True)
def plain_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no startup file of this machine decide a test."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")


def doctor(pool: Pool, *arguments: str, **variables: str) -> Done:
    return busbar({"BUSBAR_CONTEXT": str(pool.context), **variables}, "doctor", *arguments)


def states(lines: str) -> list[tuple[str, str]]:
    """Return check and state of each line."""
    return [(line[9:].partition(":")[0], line[:8].strip()) for line in lines.splitlines()]


@pytest.fixture
def findings_of(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., dict[str, Finding]]:
    """Return a function that runs the checks with a changed context, and returns the last ones."""

    def run(allocation: str = "", **changes: Any) -> dict[str, Finding]:
        changed = replace(Context(**json.loads(pool.context.read_text())), **changes)
        path = tmp_path / "context.json"
        path.write_text(json.dumps(vars(changed)))
        monkeypatch.setenv("BUSBAR_CONTEXT", str(path))
        return {f.check: f for f in findings(allocation)}

    return run


def test_all_is_ok_on_a_machine_that_works(pool: Pool) -> None:
    token = pool.api.request("POST", "tokens", {"name": "long"})["token"]
    ca = str(pool.stack.appliance_data / "ca.pem")
    done = doctor(pool, BUSBAR_URL=pool.stack.url, BUSBAR_TOKEN=token, BUSBAR_CA=ca)
    assert done.returncode == 0, done.stdout + done.stderr
    checks = ["library", *REMOTE, "node port", "round trip"]
    assert states(done.stdout) == [(name, "ok") for name in checks]
    assert "calls a second that wait" in done.stdout and " until 20" in done.stdout


def test_json_has_all_fields_and_the_exit_code_is_that_of_the_table(pool: Pool) -> None:
    done = doctor(pool, "-o", "json", BUSBAR_CLIENT_LIBRARY="/nowhere")
    rows = json.loads(done.stdout)
    assert done.returncode == 1 and done.stderr == f"busbar: 1 of {len(rows)} checks failed.\n"
    assert {tuple(row) for row in rows} == {("check", "state", "found", "fix")}
    assert [row["check"] for row in rows if row["state"] == "failed"] == ["library"]
    assert "Unset BUSBAR_CLIENT_LIBRARY" in rows[0]["fix"]


def test_program_measures_the_gpu_of_its_allocation(settled: Pool) -> None:
    code, out, err = settled.finish(settled.start(5, *DOCTOR))
    assert code == 0, out + err
    assert states(out)[-3:] == [("GPU", "ok"), ("call", "ok"), ("bandwidth", "ok")]
    assert "a copy of 1 GiB takes" in out and "A call that waits takes" in out


def test_program_whose_allocation_was_released_is_told_so(settled: Pool) -> None:
    body = {"percent": 5, "hold": "lifetime", "lifetime_seconds": 600}
    path = f"allocations/{settled.api.request('POST', 'allocations', body)['id']}"
    settled.wait("the GPU", lambda: settled.api.request("GET", path)["state"] == "active")
    keeper = LeaseKeeper(settled.api, path.partition("/")[2], TicketFile())
    try:
        keeper.write_ticket()
        settled.api.request("DELETE", path)
        settled.wait("the end", lambda: settled.api.request("GET", path)["state"] == "released")
        done = doctor(settled, **environment(keeper.file.path, software=True))
    finally:
        keeper.file.close()
    assert done.returncode == 1 and states(done.stdout)[-1] == ("ticket", "failed"), done
    last = done.stdout.splitlines()[-1]
    assert "The allocation was released by local at 2" in last, last
    assert last.endswith(" UTC. Start `busbar run` again."), last


def test_named_allocation_is_measured(settled: Pool) -> None:
    body = {"name": "night", "percent": 5, "hold": "lifetime", "lifetime_seconds": 600}
    allocation = settled.api.request("POST", "allocations", body)
    path = f"allocations/{allocation['id']}"
    settled.wait("the GPU", lambda: settled.api.request("GET", path)["state"] == "active")
    done = doctor(settled, "night")
    assert done.returncode == 0, done.stdout + done.stderr
    checks = ["ticket", "node port", "round trip", "GPU", "call", "bandwidth"]
    assert states(done.stdout)[-6:] == [(name, "ok") for name in checks]
    plain = states(doctor(settled).stdout)
    assert plain[-3:] == [("node port", "ok"), ("round trip", "ok"), ("ticket", "ok")]
    assert plain.count(("node port", "ok")) == 1
    settled.api.request("DELETE", path)
    ended = doctor(settled, allocation["id"])
    assert ended.returncode == 1
    assert "ticket: The allocation was released by " in ended.stdout
    assert "busbar allocation create" in ended.stdout


def test_allocation_that_does_not_exist_has_its_line(pool: Pool) -> None:
    done = doctor(pool, "absent")
    assert done.returncode == 1
    assert 'failed   ticket: Allocation "absent" not found.' in done.stdout
    assert "busbar allocation list" in done.stdout


def test_program_that_lost_the_client_library_is_told_how_to_keep_it(settled: Pool) -> None:
    script = f'{ELSEWHERE} exec "$@"'
    code, out, _ = settled.finish(settled.start(5, "sh", "-c", script, "sh", *DOCTOR))
    assert code == 1
    assert "failed   library: A program cannot load libcuda.so.1" in out
    assert "Look for a script that replaces LD_LIBRARY_PATH" in out
    assert "failed   GPU: A program has no GPU" in out


def test_program_that_lost_its_environment_is_told_how_to_keep_it(settled: Pool) -> None:
    kept = [f"{name}={os.environ[name]}" for name in ("PATH", "HOME")]
    cleared = ["env", "-i", *kept, f"BUSBAR_CONTEXT={settled.context}", *DOCTOR]
    code, out, _ = settled.finish(settled.start(5, *cleared))
    assert code == 1
    assert "failed   library: This process is inside of `busbar run`, without the" in out
    assert "clears the environment" in out


@pytest.mark.parametrize(
    ("value", "remedy"),
    [("3", "Unset CUDA_VISIBLE_DEVICES (3): "), ("", "Unset CUDA_VISIBLE_DEVICES: it is empty")],
)
def test_variable_that_hides_the_gpu_is_told(settled: Pool, value: str, remedy: str) -> None:
    _, out, _ = settled.finish(settled.start(5, "env", f"CUDA_VISIBLE_DEVICES={value}", *DOCTOR))
    assert remedy in out


def test_startup_file_of_the_shell_that_hides_the_library_is_a_warning(
    pool: Pool, tmp_path: Path
) -> None:
    (tmp_path / ".bashrc").write_text(f"export {ELSEWHERE}\n")
    done = doctor(pool)
    assert done.returncode == 0
    assert "warning  library: A program that /bin/bash starts cannot load" in done.stdout
    assert "Look in the startup files of the shell" in done.stdout


def test_startup_file_that_needs_a_terminal_is_no_fault(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("tty || exit 1\n")
    done = doctor(pool)
    assert done.returncode == 0 and "warning  library" not in done.stdout


def test_other_library_in_ld_preload_is_found(pool: Pool, tmp_path: Path) -> None:
    shutil.copy(BUILD / "client" / "libcuda.so.1", tmp_path)
    done = doctor(pool, LD_PRELOAD=f"{tmp_path}/libcuda.so.1")
    assert done.returncode == 1
    assert f"library: A program loads {tmp_path}/libcuda.so.1" in done.stdout
    assert "Unset LD_PRELOAD" in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_library_on_a_file_system_without_programs_is_found(pool: Pool, tmp_path: Path) -> None:
    library = BUILD / "client" / "libcuda.so.1"
    script = f'mount -t tmpfs -o noexec none {tmp_path} && cp {library} {tmp_path} && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *DOCTOR],
        env=os.environ
        | {"BUSBAR_CONTEXT": str(pool.context), "BUSBAR_CLIENT_LIBRARY": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    assert f"{tmp_path} is on a file system that is mounted noexec" in done.stdout, done


def test_account_that_may_not_list_nodes_gets_a_warning(pool: Pool) -> None:
    body = {"name": "narrow", "scopes": ["account.self", "allocations.create"]}
    token = pool.api.request("POST", "tokens", body)["token"]
    ca = str(pool.stack.appliance_data / "ca.pem")
    done = doctor(pool, BUSBAR_URL=pool.stack.url, BUSBAR_TOKEN=token, BUSBAR_CA=ca)
    assert done.returncode == 0, done.stdout
    assert ("node port", "warning") in states(done.stdout)


def test_node_that_does_not_respond_fails_in_time(settled: Pool) -> None:
    body = {"percent": 5, "hold": "lifetime", "lifetime_seconds": 600}
    allocation = settled.api.request("POST", "allocations", body)["id"]
    path = f"allocations/{allocation}"
    settled.wait("the GPU", lambda: settled.api.request("GET", path)["state"] == "active")
    launcher = settled.stack.node.launcher.process
    assert launcher is not None
    launcher.send_signal(signal.SIGSTOP)
    try:
        done = doctor(settled, allocation)
    finally:
        launcher.send_signal(signal.SIGCONT)
    assert done.returncode == 1
    assert states(done.stdout)[-2:] == [("round trip", "ok"), ("GPU", "failed")]
    assert "TLS handshake timed out" in done.stdout


def test_driver_of_this_machine_is_named(pool: Pool, tmp_path: Path) -> None:
    shutil.copy(BUILD / "client" / "libcuda.so.1", tmp_path)
    done = doctor(pool, LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 0
    assert f"Others load {tmp_path}/libcuda.so.1 of this machine." in done.stdout


def test_other_ca_is_found_with_both_fingerprints(
    pool: Pool, findings_of: Callable[..., dict[str, Finding]], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    found = findings_of(ca_pem=create_authority(tmp_path / "other").pem)
    assert list(found) == ["library", *REMOTE[:3]]
    assert found["certificate"].state == "failed"
    assert f"that of the answer, {pool.stack.ca_fingerprint()}," in found["certificate"].fix
    assert f"--ca-sha256 {pool.stack.ca_fingerprint()}" not in found["certificate"].fix
    assert "another machine answers" in found["certificate"].fix
    assert found["clock"].state == "ok"


@pytest.mark.parametrize(
    ("changes", "check", "fix"),
    [
        ({"ca_pem": "x"}, "certificate", "Sign in again with: busbar login https://127.0.0.1:"),
        ({"token": "bb_wrong"}, "sign-in", "Sign in again with: busbar login https://127.0.0.1:"),
        ({"url": "127.0.0.1"}, "appliance port", "Sign in again with: busbar login"),
        ({"url": "https://a..b:8443"}, "appliance port", "Check the name, and the name servers"),
        ({"url": "https://no.invalid:8443"}, "appliance port", "getent hosts no.invalid"),
        ({"url": "https://127.0.0.1:9"}, "appliance port", "ask for this TCP port"),
    ],
    ids=["ca", "token", "url", "malformed name", "name", "closed port"],
)
def test_fault_fails_one_check_and_says_what_to_do(
    findings_of: Callable[..., dict[str, Finding]], changes: dict[str, str], check: str, fix: str
) -> None:
    found = findings_of(**changes)
    assert [f.check for f in found.values() if f.state == "failed"] == [check]
    assert fix in found[check].fix
    assert list(found)[-1] == check or found["clock"].state == "ok"


@pytest.mark.parametrize("port", ["silent", "closing", "node"])
def test_other_service_at_the_address_is_found(
    pool: Pool,
    findings_of: Callable[..., dict[str, Finding]],
    monkeypatch: pytest.MonkeyPatch,
    port: str,
) -> None:
    monkeypatch.setattr(doctor_appliance, "ANSWER_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number = listening.getsockname()[1]
        if port == "node":
            number = pool.api.items("nodes")[0]["endpoints"][0]["port"]
        if port == "closing":
            listening.close()
        found = findings_of(url=f"https://127.0.0.1:{number}")
    check = "appliance port" if port == "closing" else "certificate"
    assert found[check].state == "failed" and "Check " in found[check].fix


def test_token_that_ends_soon_is_a_warning(
    pool: Pool, findings_of: Callable[..., dict[str, Finding]]
) -> None:
    body = {"name": "short", "lifetime_seconds": 3600}
    found = findings_of(token=pool.api.request("POST", "tokens", body)["token"])
    assert found["sign-in"].state == "warning"
    assert "busbar token create" in found["sign-in"].fix
    assert found["versions"].state == "ok"


def test_client_of_another_version_is_a_warning(
    findings_of: Callable[..., dict[str, Finding]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_appliance, "AGENT_VERSION", "0.0.1")
    found = findings_of()
    assert found["versions"].state == "warning"
    assert "busbar install-line" in found["versions"].fix
