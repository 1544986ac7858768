"""Machines of other releases: root file systems made by debootstrap, with nothing of ours."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deploy.supervisor import ROOT, wait_for

ROOTS = Path(os.environ.get("BUSBAR_TEST_ROOTS", ROOT / "build" / "test-roots"))
SCRIPTS = Path("/usr/share/debootstrap/scripts")
UBUNTU_SCRIPT = SCRIPTS / "jammy"


@dataclass(frozen=True)
class Release:
    """A release and its Python. Each comes from the default mirror of debootstrap for it."""

    name: str
    python: str
    is_ubuntu: bool = False


@dataclass(frozen=True)
class System:
    """Packages and mounts of a machine beside the smallest system of its release, and its start."""

    name: str
    packages: str
    mounts: str
    """Commands of a shell that mount file systems below $root."""
    first_process: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    """Options of unshare(1)."""


CLIENT = System(
    "", "python3,curl", "mount --rbind /dev $root/dev", first_process=("sleep", "infinity")
)
"""The machine that the guide requires for a client."""
RELEASES = (
    Release("bullseye", "3.9"),
    Release("jammy", "3.10", is_ubuntu=True),
    Release("bookworm", "3.11"),
    Release("noble", "3.12", is_ubuntu=True),
    Release("trixie", "3.13"),
    Release("resolute", "3.14", is_ubuntu=True),
)
OLDEST_GLIBC = RELEASES[0]
"""glibc 2.31, the oldest release of the mirrors; its Python is too old for the command."""
WITH_PYTHON = tuple(r for r in RELEASES if r.python != "3.9")


def release_named(name: str) -> Release:
    return next(release for release in RELEASES if release.name == name)


def ubuntu_mirror() -> str:
    """Return the mirror that debootstrap's script names for x86-64 and releases with support.

    Without Ubuntu's keyring debootstrap would take its mirror of Debian instead.
    """
    of_architecture = UBUNTU_SCRIPT.read_text().partition("amd64")[2].partition("esac")[0]
    return str(re.findall(r"default_mirror (\S+)", of_architecture)[-1])


def root_of(release: Release, system: System = CLIENT) -> Path:
    """Return the root file system of a release. Creates it at first use, in minutes.

    The creation needs root and a mirror. Ubuntu's signatures are checked if its keyring is here.
    Raises RuntimeError if debootstrap fails.
    """
    root = ROOTS / (release.name + system.name)
    ROOTS.mkdir(parents=True, exist_ok=True)
    with root.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ready = root.with_suffix(".ready")
        if ready.exists() and ready.read_text() == system.packages:
            return root
        ready.unlink(missing_ok=True)
        shutil.rmtree(root, ignore_errors=True)
        keyring = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")
        unsigned = release.is_ubuntu and not keyring.exists()
        command = ["debootstrap", "--variant=minbase", f"--include={system.packages}"]
        command += ["--no-check-gpg"] if unsigned else []
        command += [release.name, str(root)]
        # One script serves all releases of Ubuntu; debootstrap may not know the newest ones.
        command += [ubuntu_mirror(), str(UBUNTU_SCRIPT)] if release.is_ubuntu else []
        log = root.with_suffix(".log")
        with log.open("wb") as out:
            if subprocess.run(command, stdout=out, stderr=out, check=False).returncode:
                raise RuntimeError(f"debootstrap failed: {log.read_text()[-500:]}")
        ready.write_text(system.packages)
    return root


class Machine:
    """A running machine: an overlay over a root, in namespaces of its own."""

    def __init__(self, process: subprocess.Popen[bytes], root: Path) -> None:
        self._process, self.root = process, root

    def pid(self) -> int:
        """Return the pid of the process that holds the namespaces."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return int(children.read_text().split()[0])

    def path(self, name: str) -> Path:
        """Return the path of a file of the machine, as seen from outside."""
        return Path(f"/proc/{self.pid()}/root{name}")

    def command(self, *words: str, network: bool = True, **variables: str) -> list[str]:
        """Return a command line that runs a command as root on the machine."""
        pid = str(self.pid())
        line = ["nsenter", "-t", pid, "-m", "-p", "-n", f"--root=/proc/{pid}/root"]
        line += [] if network else ["unshare", "-n"]
        settings = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        settings |= {"HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        return [
            *line,
            "env",
            "-i",
            "-C",  # --wd of nsenter means a folder outside
            "/root",
            *(f"{k}={v}" for k, v in (settings | variables).items()),
            *words,
        ]

    def run(
        self, *words: str, network: bool = True, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words, network=network, **variables),
            capture_output=True,
            text=True,
            check=False,
        )

    def run_well(self, *words: str) -> str:
        """Run a command that must succeed. Return its output."""
        done = self.run(*words)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def install(self, source: Path, target: str) -> None:
        """Copy a file or a folder to the machine."""
        if source.is_dir():
            shutil.copytree(source, self.path(target), dirs_exist_ok=True)
        else:
            shutil.copy2(source, self.path(target))


@contextmanager
def machine(
    release: Release,
    folder: Path,
    *,
    own_network: bool = False,
    system: System = CLIENT,
    group: Path | None = None,
) -> Iterator[Machine]:
    """Start a machine whose changes lie in `folder` and end with it.

    Its processes are in the control group `group`, or in that of this process.
    """
    for name in ("upper", "work", "root"):
        (folder / name).mkdir(parents=True)
    root = folder / "root"
    layers = f"lowerdir={root_of(release, system)},upperdir={folder}/upper,workdir={folder}/work"
    script = (
        f"set -e; root={root}; mount -t overlay overlay -o {layers} $root\n"
        "mount -t proc proc $root/proc; mount -t tmpfs tmpfs $root/run\n"
        "mount -t tmpfs tmpfs $root/tmp; chmod 1777 $root/tmp\n"
        f"{system.mounts}\nexec chroot $root {' '.join(system.first_process)}"
    )
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGKILL", *system.namespaces]
    command += ["--net"] if own_network else []
    process = subprocess.Popen(
        [*command, "sh", "-c", script],
        stdin=subprocess.DEVNULL,
        preexec_fn=partial(enter, group) if group else None,
    )
    found = Machine(process, root)
    try:
        wait_for("the machine", lambda: is_up(found, system), folder / "log")
        yield found
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def enter(group: Path) -> None:
    (group / "cgroup.procs").write_text("0")


def is_up(started: Machine, system: System) -> bool:
    try:
        name = Path(f"/proc/{started.pid()}/comm").read_text().strip()
        return name == Path(system.first_process[0]).name
    except (OSError, IndexError):
        return False
