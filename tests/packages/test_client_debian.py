"""The Debian package of the client on a machine with nothing of ours: install, run, remove."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from remoting.cli.api import Api, Context
from tests.appliance.appliance_process import started
from tests.fleet.target import Target, target
from tests.system.conftest import DEMO, Pool

pytestmark = pytest.mark.long

if os.geteuid() != 0:
    pytest.skip("needs root", allow_module_level=True)

WGET = "/usr/bin/wget"


def copy_program(machine: Target, program: str) -> None:
    """Copy a program of this machine with its libraries: both have the same release of Debian."""
    shown = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in (program, *re.findall(r"=> (/\S+)", shown)):
        target = machine.path(path)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


@pytest.fixture(scope="module")
def debian(packages: Path) -> Iterator[Target]:
    with target() as found:
        (package,) = packages.glob("*.deb")
        shutil.copy2(package, found.path(f"/root/{package.name}"))
        yield found


def test_package_installs_runs_a_program_and_leaves_nothing(debian: Target, pool: Pool) -> None:
    before = set(debian.tree())
    (package,) = debian.path("/root").glob("*.deb")
    installed = debian.run("apt-get", "install", "-y", f"/root/{package.name}")
    assert installed.returncode == 0, installed.stderr
    assert debian.run("busbar", "--version").stdout.startswith("busbar ")
    shutil.copy2(DEMO, debian.path("/root/program"))
    shutil.copy2(pool.context, debian.path("/root/context.json"))
    done = debian.run(
        *("env", "BUSBAR_CONTEXT=/root/context.json", "HOME=/root"),
        *("busbar", "run", "-p", "25", "--timeout", "300s", "--", "sh", "-c"),
        "busbar-smi -L && /root/program memory",
    )
    assert done.returncode == 0, done.stderr
    whole = pool.api.items("gpus")[0]["memory_bytes"]
    assert re.search("^GPU 0: .* \\(UUID: GPU-", done.stdout, re.MULTILINE)
    assert f'"total_bytes": {whole * 25 // 100 // (2 << 20) * (2 << 20)}' in done.stdout
    removed = debian.run("apt-get", "purge", "-y", "busbar-client")
    assert removed.returncode == 0, removed.stderr
    left = {name for name in set(debian.tree()) - before if "busbar" in name}
    assert not left


def test_line_installs_package_as_root(packages: Path, tmp_path: Path) -> None:
    with (
        target() as machine,
        started(tmp_path / "appliance", BUSBAR_CLIENT_PACKAGES=str(packages)) as appliance,
    ):
        copy_program(machine, WGET)
        token = appliance.manage("create_token", "--role", "user", "--hours", "1")
        user = Context(appliance.url, token, (appliance.data / "ca.pem").read_text())
        line = Api(user).request("GET", "client-installation")["wget_line"]
        for _ in range(2):
            done = machine.run("sh", "-c", line)
            assert done.returncode == 0, done.stderr
            assert re.search("busbar .* is installed: /usr/bin/busbar", done.stdout)
        shown = machine.run("dpkg-query", "-W", "-f", "${Status}", "busbar-client").stdout
        assert shown == "install ok installed"
        assert machine.run("busbar", "--version").returncode == 0
