"""Target machines of enrolment tests: Debian in namespaces, with its own users and sshd."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.ports import free_port
from deploy.supervisor import ROOT, wait_for
from tests.file_tree import Entry, tree
from tests.ports import port

BASE = Path(os.environ.get("BUSBAR_TEST_ROOT", ROOT / "build" / "test-root"))
"""Root file system made once by debootstrap. Each target is an overlay over it."""
PACKAGES = "ca-certificates,python3,openssh-server,sudo,gcc,libc6-dev"
PASSWORD = "canary-4b1f-heron"
"""Tests search for it in everything that the appliance stores."""
SUDO_USER, PLAIN_USER, NOISY_USER = "opal", "outsider", "noisy"
"""A user with sudo by password, one without sudo, one with a shell that prints a banner."""
SSHD = """
Port {port}
ListenAddress 127.0.0.1
PermitRootLogin yes
PasswordAuthentication yes
UsePAM no
PidFile none
PrintLastLog no
PrintMotd no
Subsystem sftp internal-sftp
"""


def own_release() -> tuple[str, str]:
    """Return Debian's release of this machine and its mirror, for targets of the same release."""
    release = dict(
        line.split("=", 1)
        for line in Path("/etc/os-release").read_text().splitlines()
        if "=" in line
    )["VERSION_CODENAME"].strip('"')
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(CODENAME) $(REPO_URI)",
        "Created-By: Packages",
    ]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return release, next(
        mirror for name, _, mirror in (line.partition(" ") for line in listed) if name == release
    )


def base_root() -> Path:
    """Return the root file system of Debian. Creates it at first use.

    The creation takes one to two minutes and needs root and Debian's archive. A lock ensures that
    one process creates it while the others block.
    """
    BASE.parent.mkdir(parents=True, exist_ok=True)
    with BASE.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (BASE / "ready").exists():
            make_base_root()
    return BASE


def make_base_root() -> None:
    shutil.rmtree(BASE, ignore_errors=True)
    BASE.mkdir(parents=True)
    log = BASE.with_suffix(".log")
    with log.open("wb") as out:
        release, mirror = own_release()
        command = [
            "debootstrap",
            "--variant=minbase",
            f"--include={PACKAGES}",
            release,
            str(BASE),
            mirror,
        ]
        done = subprocess.run(command, stdout=out, stderr=out, check=False)
    if done.returncode:
        raise RuntimeError(f"debootstrap failed: {log.read_text()[-500:]}")
    for user in (SUDO_USER, PLAIN_USER, NOISY_USER):
        subprocess.run(["chroot", BASE, "useradd", "-m", "-s", "/bin/bash", user], check=True)
    entries = "".join(
        f"{user}:{PASSWORD}\n" for user in ("root", SUDO_USER, PLAIN_USER, NOISY_USER)
    )
    subprocess.run(["chroot", BASE, "chpasswd"], input=entries, text=True, check=True)
    sudoers = BASE / "etc" / "sudoers.d" / "test"
    sudoers.write_text(
        f"Defaults !lecture\n{SUDO_USER} ALL=(ALL) ALL\n{NOISY_USER} ALL=(ALL) NOPASSWD: ALL\n"
    )
    sudoers.chmod(0o440)
    (BASE / "home" / NOISY_USER / ".bashrc").write_text(
        'echo "*** This machine is watched. BUSBAR is a word. ***"; echo "and stderr" >&2\n'
    )
    (BASE / "ready").touch()


class Target:
    """A running machine. Use `target()` to start and stop it."""

    def __init__(self, *, small: str = "") -> None:
        base = base_root()
        self.folder = Path(tempfile.mkdtemp(prefix="bb-target-"))
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir()
        self.port = free_port(port(500), "127.0.0.1")
        self._small = small
        self._script = self._write_script(base)
        self._start()

    def _write_script(self, base: Path) -> Path:
        root = self.folder / "root"
        (self.folder / "sshd_config").write_text(SSHD.format(port=self.port))
        script = self.folder / "start"
        small = (
            f"mkdir -p {root}{self._small} && "
            f"mount -t tmpfs -o size=400m,nr_inodes=120 tmpfs {root}{self._small}"
            if self._small
            else "true"
        )
        script.write_text(
            "set -e\nmount -t overlay overlay -o "
            f"lowerdir={base},upperdir={self.folder}/upper,workdir={self.folder}/work {root}\n"
            f"mount -t proc proc {root}/proc\nmount --rbind /dev {root}/dev\n"
            f"mount -t tmpfs tmpfs {root}/run\n"
            f"mount -t tmpfs tmpfs {root}/tmp\nchmod 1777 {root}/tmp\n"
            f"echo {uuid.uuid4().hex} >{root}/etc/machine-id\n"  # UUIDs of software GPUs differ
            f"mkdir {root}/run/sshd\n{small}\ncp {self.folder}/sshd_config {root}/run/sshd_config\n"
            f"exec chroot {root} /usr/sbin/sshd -D -e -f /run/sshd_config\n"
        )
        return script

    def _start(self) -> None:
        with (self.folder / "sshd.log").open("ab") as log:
            command = [
                "unshare",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child=SIGKILL",
                "sh",
                str(self._script),
            ]
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        wait_for("sshd", self._sshd_ready, self.folder / "sshd.log")

    def _sshd_ready(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                return s.recv(4).startswith(b"SSH-")
        except OSError:
            return False

    def sshd_pid(self) -> int:
        return int(
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            .read_text()
            .split()[0]
        )

    def path(self, name: str) -> Path:
        """Return the path of a file of the machine, as seen from outside."""
        return Path(f"/proc/{self.sshd_pid()}/root{name}")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command as root on the machine, which has no folders of the test's environment."""
        pid = str(self.sshd_pid())
        return subprocess.run(
            ["nsenter", "-t", pid, "-m", "-p", f"--root=/proc/{pid}/root", *command],
            env={"PATH": os.environ["PATH"], "HOME": "/root"},
            capture_output=True,
            text=True,
            check=False,
        )

    def processes(self) -> list[str]:
        return processes_in(self.path("/proc"))

    def tree(self) -> dict[str, Entry]:
        """Return mode, size, time of change and link target of every file.

        Of folders only the mode is compared.
        """
        found = tree(self.path("/"))
        found.pop("var/log/btmp", None)  # sshd records failed logins in it
        return found

    def new_host_key(self) -> None:
        """Replace the host keys, as a reinstallation does."""
        for old in self.path("/etc/ssh").glob("ssh_host_*"):
            old.unlink()
        assert self.run("ssh-keygen", "-A").returncode == 0

    def stop(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            try:
                shutil.rmtree(self.folder)
                return
            except OSError:
                continue


def processes_in(proc: Path) -> list[str]:
    """Return the command lines of Busbar's processes on a machine."""
    out = []
    for entry in proc.glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if "busbar" in line and "sshd" not in line:
            out.append(line)
    return out


@contextmanager
def target(*, small: str = "") -> Iterator[Target]:
    """Start a machine. `small` is a folder that becomes a tmpfs with few inodes."""
    machine = Target(small=small)
    try:
        yield machine
    finally:
        machine.stop()
