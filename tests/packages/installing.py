"""Machines without a client that fetch and run the installation script of an appliance."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.appliance.appliance_process import ApplianceProcess

NEEDED = (
    *("sh", "cat", "cut", "uname", "mktemp", "rm", "id", "df", "dirname", "sleep", "chmod"),
    *("base64", "sha256sum", "readlink", "cp"),
)
"""Programs of every Linux. Others are added by name: this machine has more than a bare one."""
PLAIN_UID = 65534
CURL = ("curl", "python3")
WGET = ("wget", "python3")


@dataclass(frozen=True)
class Bare:
    """A user's account on a machine with few programs."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def command(self) -> Path:
        return self.home / ".local" / "bin" / "busbar"

    @property
    def versions(self) -> list[str]:
        folder = self.home / ".local" / "lib" / "busbar-client"
        return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.exists() else []

    def start(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command as a user who is not root, also in tests that run as root."""
        environment = {"PATH": str(self.folder / "bin"), "HOME": str(self.home)}
        ids = (
            {"user": PLAIN_UID, "group": PLAIN_UID, "extra_groups": []} if os.geteuid() == 0 else {}
        )
        process: subprocess.Popen[str] = subprocess.Popen(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            env=environment | {"TMPDIR": str(self.home)} | variables,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **ids,  # type: ignore[call-overload]
        )
        return process

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*command, **variables)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def write(self, name: str, text: str) -> str:
        """Write a file that its user may read, and return its path."""
        path = self.home / name
        path.write_text(text)
        path.chmod(0o644)
        return str(path)


def bare(folder: Path, *programs: str) -> Bare:
    """Return a new account whose PATH has few programs and the named ones.

    Its user must be able to enter the folders above.
    """
    (folder / "bin").mkdir(parents=True)
    (folder / "home").mkdir(mode=0o755)
    for name in (*NEEDED, *programs):
        found = shutil.which(name, path="/usr/bin:/bin")
        assert found, name
        (folder / "bin" / name).symlink_to(found)
    if os.geteuid() == 0:
        os.chown(folder / "home", PLAIN_UID, PLAIN_UID)
    return Bare(folder)


def script_of(appliance: ApplianceProcess) -> str:
    return appliance.get("/install/client.sh").decode()


def assert_installed(machine: Bare) -> None:
    done = machine.run("sh", "-c", f"{machine.command} --version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("busbar ")
    assert (machine.command.parent / "busbar-smi").exists()
    assert len(machine.versions) == 1


def assert_nothing_installed(machine: Bare) -> None:
    assert not machine.command.exists()
    assert not list(machine.home.glob("busbar-client.*")), "the temporary folder is left"
    assert machine.versions == []
