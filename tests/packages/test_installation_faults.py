"""The installation script on machines that a client cannot be installed on, or not as usual."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable

import pytest

from deploy.supervisor import ROOT
from remoting.cli.api import Api, Context
from tests.appliance.appliance_process import ApplianceProcess
from tests.packages.installing import (
    PLAIN_UID,
    Bare,
    assert_installed,
    assert_nothing_installed,
    script_of,
)

GUIDE = ROOT / "docs" / "guides" / "install-clients.md"
AS_USER = f"setpriv --reuid {PLAIN_UID} --regid {PLAIN_UID} --clear-groups"
SYSTEMS = "with Debian 12, Ubuntu 22.04 or newer."
"""Both have a Python for the command; older ones with the C library have not."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def replace_python(machine: Bare, cases: str, options: str = "") -> None:
    """Let python3 answer some questions differently. `cases` are those of a shell's `case`."""
    python = machine.folder / "bin" / "python3"
    real = os.readlink(python)
    python.unlink()
    python.write_text(f'#!/bin/sh\ncase "$*" in\n{cases}\nesac\nexec {real} {options} "$@"\n')
    python.chmod(0o755)


def assert_says(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Require one line, whose last sentence says what to do."""
    assert done.returncode == 1, done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("client.sh: ")
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("cases", "found", "remedy"),
    [
        ("*confstr*) exit 1 ;;", "another C library, such as musl.", SYSTEMS),
        ("*confstr*) echo glibc 2.17; exit ;;", "this is glibc 2.17.", SYSTEMS),
        ("*_ssl*) exit 1 ;;", "lacks a module", "apt-get install python3"),
    ],
    ids=["musl", "old glibc", "minimal Python"],
)
def test_script_says_what_the_system_lacks_before_it_fetches(
    appliance: ApplianceProcess, machine: Bare, cases: str, found: str, remedy: str
) -> None:
    replace_python(machine, cases)
    done = machine.run("sh", machine.write("client.sh", script_of(appliance)))
    assert_says(done, found, remedy)
    assert_nothing_installed(machine)


def test_python_without_pip_suffices(appliance: ApplianceProcess, machine: Bare) -> None:
    replace_python(machine, "", "-S")
    assert machine.run("python3", "-c", "import pip").returncode == 1
    done = machine.run("sh", machine.write("client.sh", script_of(appliance)))
    assert done.returncode == 0, done.stderr
    assert_installed(machine)


def test_script_without_a_home_asks_for_a_folder(
    appliance: ApplianceProcess, machine: Bare
) -> None:
    script = machine.write("client.sh", script_of(appliance))
    done = machine.run("sh", script, HOME="")
    assert_says(done, "HOME is not set.", "--prefix FOLDER")
    assert_nothing_installed(machine)


def run_below(
    machine: Bare, options: str, place: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the script where a file system with these options is mounted below the home."""
    folder = machine.home / place
    folder.mkdir(exist_ok=True)
    mount = f"mount -t tmpfs -o mode=777,{options} none {folder}"
    script = f'{mount} && exec {AS_USER} sh {machine.home}/client.sh "$@"'
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *arguments],
        env={
            "PATH": f"{machine.folder}/bin:/usr/bin:/bin",
            "HOME": str(machine.home),
            "TMPDIR": str(machine.home / "tmp"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@needs_root
@pytest.mark.parametrize(
    ("options", "found"),
    [("ro", "cannot be written."), ("noexec", "mounted noexec")],
    ids=["read-only", "noexec"],
)
def test_folder_that_cannot_hold_commands_is_refused_before_the_fetch(
    appliance: ApplianceProcess, machine: Bare, options: str, found: str
) -> None:
    machine.write("client.sh", script_of(appliance))
    (machine.home / "tmp").mkdir(mode=0o777)
    (machine.home / "tmp").chmod(0o777)
    done = run_below(machine, options, ".local")
    assert_says(done, f"{machine.home}/.local ", found, "sh client.sh --prefix FOLDER")
    assert not list((machine.home / "tmp").iterdir())


@needs_root
def test_temporary_folder_without_programs_suffices(
    appliance: ApplianceProcess, machine: Bare
) -> None:
    machine.write("client.sh", script_of(appliance))
    done = run_below(machine, "noexec", "tmp")
    assert done.returncode == 0, done.stderr
    assert_installed(machine)


@needs_root
def test_read_only_temporary_folder_is_named(appliance: ApplianceProcess, machine: Bare) -> None:
    machine.write("client.sh", script_of(appliance))
    done = run_below(machine, "ro", "tmp")
    assert done.returncode == 1
    assert "No temporary folder can be made; set TMPDIR." in done.stderr
    assert_nothing_installed(machine)


def test_folder_of_another_user_inside_of_the_prefix_is_named(
    appliance: ApplianceProcess, machine: Bare
) -> None:
    (machine.home / ".local").mkdir()
    (machine.home / ".local" / "lib").write_text("a file where the folder would be")
    if os.geteuid() == 0:
        shutil.chown(machine.home / ".local", PLAIN_UID)
    done = machine.run("sh", machine.write("client.sh", script_of(appliance)))
    assert_says(done, f"was not installed in {machine.home}/.local", "--prefix FOLDER")
    assert_nothing_installed(machine)


def test_unreachable_appliance_leaves_nothing(appliance: ApplianceProcess, machine: Bare) -> None:
    text = script_of(appliance).replace(appliance.url, "https://127.0.0.1:9")
    done = machine.run("sh", machine.write("client.sh", text.replace("TRIES=8", "TRIES=1")))
    assert_says(done, "cannot be fetched. Check the network to it, and run this script again.")
    assert_nothing_installed(machine)


@pytest.mark.parametrize("is_wrong", [False, True], ids=["right", "wrong"])
def test_line_leaves_no_temporary_folder(user: Context, machine: Bare, is_wrong: bool) -> None:
    found = Api(user).request("GET", "client-installation")
    line = found["curl_line"]
    if is_wrong:
        line = line.replace(found["ca_sha256"], "0" * 64)
    done = machine.run("sh", "-c", f"{line}; echo ended with $?")
    assert f"ended with {int(is_wrong)}" in done.stdout
    assert ("Take a new line from: busbar install-line" in done.stderr) == is_wrong
    assert not list(machine.home.glob("tmp.*"))


def test_line_with_the_end_that_the_guide_names_keeps_the_script(
    user: Context, machine: Bare
) -> None:
    (found,) = re.findall(r"paste the line with `(.*?)` in place of `(.*?)`", GUIDE.read_text())
    line = Api(user).request("GET", "client-installation")["curl_line"]
    assert line.count(found[1]) == 1
    done = machine.run("sh", "-c", line.replace(found[1], found[0]))
    assert done.returncode == 0, done.stderr
    assert [path.name for path in machine.home.iterdir()] == ["client.sh"]
    assert "--prefix" in machine.run("sh", "client.sh", "--help").stdout


FAULTY_CURL = {
    "unreachable": "exit 7",
    "refused script": 'case "$*" in *client.sh*) exit 22 ;; esac; exec $real "$@"',
    "interrupted": "kill -INT $PPID",
    "stopped": "kill -TERM $PPID",
}


@pytest.mark.parametrize("fault", FAULTY_CURL)
def test_line_that_fails_leaves_no_temporary_folder(
    user: Context, machine: Bare, fault: str
) -> None:
    curl = machine.folder / "bin" / "curl"
    real = os.readlink(curl)
    curl.unlink()
    curl.write_text(f"#!/bin/sh\nreal={real}\n{FAULTY_CURL[fault]}\n")
    curl.chmod(0o755)
    line = Api(user).request("GET", "client-installation")["curl_line"]
    assert machine.run("sh", "-c", line).returncode != 0
    assert not list(machine.home.iterdir())


def test_line_whose_script_fails_leaves_no_temporary_folder(
    user: Context, new_machine: Callable[..., Bare]
) -> None:
    machine = new_machine("curl")
    line = Api(user).request("GET", "client-installation")["curl_line"]
    assert "python3 is missing" in machine.run("sh", "-c", line).stderr
    assert not list(machine.home.iterdir())
