"""The installation script that the appliance serves, on machines without a client."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.fleet.certificates import create_authority
from remoting.cli.api import Api, Context
from tests.appliance.appliance_process import ApplianceProcess
from tests.packages.cutting_server import cutting_server
from tests.packages.installing import (
    CURL,
    WGET,
    Bare,
    assert_installed,
    assert_nothing_installed,
    script_of,
)


@pytest.mark.parametrize("programs", [CURL, WGET], ids=["curl", "wget"])
def test_line_installs_client_on_bare_machine(
    user: Context, new_machine: Callable[..., Bare], programs: tuple[str, ...]
) -> None:
    machine = new_machine(*programs)
    line = Api(user).request("GET", "client-installation")[f"{programs[0]}_line"]
    done = machine.run("sh", "-c", line)
    assert done.returncode == 0, done.stderr
    assert "busbar login https://127.0.0.1:" in done.stdout and "--ca-sha256 " in done.stdout
    assert f'export PATH="{machine.command.parent}:$PATH"' in done.stdout
    assert_installed(machine)
    again = machine.run("sh", "-c", line)
    assert again.returncode == 0, again.stderr
    assert_installed(machine)


def test_line_stops_at_another_fingerprint(user: Context, machine: Bare) -> None:
    found = Api(user).request("GET", "client-installation")
    line = found["curl_line"].replace(found["ca_sha256"], "0" * 64)
    done = machine.run("sh", "-c", line)
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert not list(machine.home.glob("*/client.sh"))
    assert_nothing_installed(machine)


@pytest.mark.parametrize("slot", ["", "-2"], ids=["same-name", "other-name"])
@pytest.mark.parametrize("programs", [CURL, WGET], ids=["curl", "wget"])
def test_script_refuses_appliance_of_another_ca(
    appliance: ApplianceProcess,
    tmp_path: Path,
    new_machine: Callable[..., Bare],
    programs: tuple[str, ...],
    slot: str,
) -> None:
    machine = new_machine(*programs)
    (tmp_path / "other").mkdir()
    other = create_authority(tmp_path / "other", slot).pem.strip()
    text = of_server(script_of(appliance), other, appliance.url)
    done = machine.run("sh", machine.write("client.sh", text))
    assert done.returncode == 1
    assert "does not prove that it is this appliance" in done.stderr
    assert_nothing_installed(machine)


@pytest.mark.parametrize("programs", [CURL, WGET], ids=["curl", "wget"])
@pytest.mark.parametrize(("cuts", "code"), [(2, 0), (3, 1)], ids=["then-whole", "always"])
def test_script_fetches_cut_package_again(
    appliance: ApplianceProcess,
    served: Path,
    tmp_path: Path,
    new_machine: Callable[..., Bare],
    programs: tuple[str, ...],
    cuts: int,
    code: int,
) -> None:
    machine = new_machine(*programs)
    content = (served / "busbar-client.tar.gz").read_bytes()
    with cutting_server(tmp_path / "server", content, cuts) as server:
        text = of_server(script_of(appliance), server.ca_pem, server.url)
        done = machine.run("sh", machine.write("client.sh", text.replace("TRIES=8", "TRIES=3")))
    assert (done.returncode, server.requests) == (code, 3), done.stderr
    assert done.stderr.count("cannot be fetched. Trying again.") == 1
    if code:
        assert "/install/busbar-client.tar.gz cannot be fetched" in done.stderr
        assert_nothing_installed(machine)
    else:
        assert_installed(machine)


def of_server(script: str, ca_pem: str, url: str) -> str:
    """Return a script that fetches from another server."""
    text = re.sub(r"-----BEGIN.*END CERTIFICATE-----", ca_pem, script, flags=re.DOTALL)
    return re.sub(r"URL='.*'", f"URL='{url}'", text)


def test_script_refuses_package_with_another_hash(
    appliance: ApplianceProcess, machine: Bare
) -> None:
    text = re.sub(r"(ARCHIVE_SHA256=)'\w+'", rf"\1'{'0' * 64}'", script_of(appliance))
    done = machine.run("sh", machine.write("client.sh", text))
    assert done.returncode == 1
    assert "busbar-client.tar.gz has another SHA-256" in done.stderr
    assert_nothing_installed(machine)


def test_cut_script_installs_nothing(appliance: ApplianceProcess, machine: Bare) -> None:
    text = script_of(appliance)
    for end in range(0, text.rindex('main "$@"'), 397):
        machine.run("sh", machine.write("client.sh", text[:end]))
    assert_nothing_installed(machine)


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        (("python3",), "curl and wget are missing"),
        (("curl",), "python3 is missing. Install Python 3.10 or later."),
    ],
    ids=["downloader", "python"],
)
def test_script_names_what_is_missing(
    appliance: ApplianceProcess,
    new_machine: Callable[..., Bare],
    programs: tuple[str, ...],
    message: str,
) -> None:
    machine = new_machine(*programs)
    done = machine.run("sh", machine.write("client.sh", script_of(appliance)))
    assert done.returncode == 1
    assert message in done.stderr
    assert_nothing_installed(machine)


def test_script_names_python_that_is_too_old(
    appliance: ApplianceProcess, new_machine: Callable[..., Bare]
) -> None:
    machine = new_machine("curl")
    old = machine.folder / "bin" / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2"\nexit 1\n')
    old.chmod(0o755)
    done = machine.run("sh", machine.write("client.sh", script_of(appliance)))
    assert "Python 3.10 or later is needed; python3 is Python 3.9.2." in done.stderr
    assert_nothing_installed(machine)


def test_script_asks_for_space_before_it_fetches(
    appliance: ApplianceProcess, machine: Bare
) -> None:
    text = re.sub(r"INSTALLED_KIB='\d+'", f"INSTALLED_KIB='{1 << 50}'", script_of(appliance))
    done = machine.run("sh", machine.write("client.sh", text))
    assert done.returncode == 1
    assert re.search(r"has \d+ KiB left; \d+ KiB are needed", done.stderr)
    assert_nothing_installed(machine)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_full_disk_leaves_nothing(appliance: ApplianceProcess, machine: Bare) -> None:
    text = script_of(appliance).replace("have df || return 0", "return 0")
    script = machine.write("client.sh", text)
    (machine.home / ".local").mkdir()
    mounted = f"mount -t tmpfs -o size=2m,mode=777 none {machine.home}/.local"
    inside = f"{mounted} && exec setpriv --reuid 65534 --regid 65534 --clear-groups sh {script}"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{inside}; ls {machine.home}/.local/lib/busbar-client"],
        env={"PATH": f"{machine.folder}/bin:/usr/bin:/bin", "HOME": str(machine.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert_nothing_installed(machine)


def test_two_installations_at_once(appliance: ApplianceProcess, machine: Bare) -> None:
    script = machine.write("client.sh", script_of(appliance))
    running = [machine.start("sh", script) for _ in range(4)]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert_installed(machine)


def test_script_leaves_foreign_command_alone(appliance: ApplianceProcess, machine: Bare) -> None:
    machine.command.parent.mkdir(parents=True)
    machine.command.write_text("#!/bin/sh\n")
    done = machine.run("sh", machine.write("client.sh", script_of(appliance)), HOME="/nowhere")
    assert done.returncode == 1
    prefix = str(machine.home / ".local")
    if os.geteuid() == 0:
        shutil.chown(prefix, 65534)
        shutil.chown(machine.command.parent, 65534)
    done = machine.run("sh", str(machine.home / "client.sh"), "--prefix", prefix)
    assert done.returncode == 1
    assert "exists and is not of this script" in done.stderr
    assert machine.command.read_text() == "#!/bin/sh\n"


def test_new_package_replaces_client_and_keeps_the_one_before(
    appliance: ApplianceProcess, served: Path, machine: Bare
) -> None:
    old = machine.write("old.sh", script_of(appliance))
    assert machine.run("sh", old).returncode == 0
    (first,) = machine.versions
    archive = served / "busbar-client.tar.gz"
    content = archive.read_bytes()
    try:
        for changes in (b"\0" * 512, b"\0" * 1024):  # at the end of the compressed archive
            archive.write_bytes(content + changes)
            outdated = machine.run("sh", old)
            assert "Fetch this script again" in outdated.stderr
            done = machine.run("sh", machine.write("client.sh", script_of(appliance)))
            assert done.returncode == 0, done.stderr
    finally:
        archive.write_bytes(content)
    assert len(machine.versions) == 2 and first not in machine.versions
    link = os.readlink(machine.command)
    assert any(version in link for version in machine.versions)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/install/client.sh", 200),
        ("/install/ca.der", 200),
        ("/install/ca.pem", 200),
        ("/install/", 404),
        ("/install/nothing", 404),
        ("/install/../data/secret_key", 404),
        ("/install/%2e%2e/ca.key", 404),
    ],
)
def test_files_need_no_sign_in_and_others_are_absent(
    appliance: ApplianceProcess, path: str, status: int
) -> None:
    command = ["curl", "-sk", "--path-as-is", "-o", "/dev/null", "-w", "%{http_code}"]
    command.append(appliance.url + path)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == str(status)


def test_method_that_changes_something_is_refused(appliance: ApplianceProcess) -> None:
    command = ["curl", "-sk", "-X", "POST", "-d", "x", f"{appliance.url}/install/client.sh"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "Only GET and HEAD are possible here.\n"


def test_appliance_without_packages_says_how_to_build_them(
    appliance: ApplianceProcess, served: Path, user: Context
) -> None:
    hidden = served.with_name("hidden")
    served.rename(hidden)
    try:
        command = ["curl", "-sk", f"{appliance.url}/install/client.sh"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "python -m deploy.packages client" in done.stdout
        assert Api(user).request("GET", "client-installation")["packages"] == []
    finally:
        hidden.rename(served)
