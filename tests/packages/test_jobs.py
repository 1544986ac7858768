"""The examples of the guide to a user's machine, as sudo, cron and scripts run them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.target import NOISY_USER, Target, target
from tests.packages.guide import assert_ran_on_quarter, example
from tests.system.conftest import DEMO, Pool

pytestmark = pytest.mark.long

if os.geteuid() != 0:
    pytest.skip("needs root", allow_module_level=True)

CRON = ("env", "-i", "HOME=/root", "LOGNAME=root", "SHELL=/bin/sh", "PATH=/usr/bin:/bin")
"""The environment of a cron job (crontab(5))."""


@pytest.fixture(scope="module")
def machine(packages: Path, session_pool: Pool) -> Iterator[Target]:
    """A machine with the client, a program and credentials of root."""
    with target() as found:
        (package,) = packages.glob("*.deb")
        shutil.copy2(package, found.path(f"/root/{package.name}"))
        done = found.run("dpkg", "-i", f"/root/{package.name}")
        assert done.returncode == 0, done.stderr
        shutil.copy2(DEMO, found.path("/root/program"))
        context = found.path("/root/.config/busbar/context.json")
        context.parent.mkdir(parents=True)
        shutil.copy2(session_pool.context, context)
        yield found


def in_root(machine: Target, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as root in the folder of the program."""
    return machine.run(*command[:-1], f"cd /root && {command[-1]}")


def test_script_that_sets_library_path(machine: Target, pool: Pool) -> None:
    machine.path("/root/job.sh").write_text(example("Scripts that set LD_LIBRARY_PATH", "sh"))
    done = in_root(machine, "sh", "-c", "sh job.sh")
    assert_ran_on_quarter(pool, done.stdout + done.stderr)


def test_sudo(machine: Target, pool: Pool) -> None:
    """The calling user has neither credentials nor a library path that sudo keeps."""
    machine.path("/root").chmod(0o755)
    line = f"cd /root && LD_LIBRARY_PATH=/nowhere {example('sudo', 'sh').strip()}"
    done = machine.run("su", NOISY_USER, "-s", "/bin/sh", "-c", line)
    assert_ran_on_quarter(pool, done.stdout + done.stderr)


def test_cron(machine: Target, pool: Pool) -> None:
    command = example("cron", "").strip().split(maxsplit=5)[5]
    done = in_root(machine, *CRON, "/bin/sh", "-c", command)
    assert done.returncode == 0, machine.path("/root/night.log").read_text()
    assert_ran_on_quarter(pool, machine.path("/root/night.log").read_text())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_unit(tmp_path: Path) -> None:
    unit = tmp_path / "training.service"
    unit.write_text(example("systemd", "ini").replace("/usr/bin/busbar", "/usr/bin/env"))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "training.service" not in done.stdout + done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def test_program_without_busbar_run_gets_no_gpu(machine: Target) -> None:
    """The examples prove something: without them there is no GPU."""
    done = in_root(machine, *CRON, "/bin/sh", "-c", "./program memory")
    assert done.returncode != 0
    assert "total_bytes" not in done.stdout
