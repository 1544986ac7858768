"""Machines that systemd has started, as servers are, in namespaces and a control group."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.supervisor import wait_for
from tests.fleet.target import own_release
from tests.packages.machines import Machine, System, machine, release_named

OF_THE_KERNEL = ("console-getty", "systemd-sysctl", "systemd-modules-load", "systemd-binfmt")
"""Services that change what the machine shares with this one."""
MOUNTS = f"""
mount -t sysfs -o ro sysfs $root/sys; mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs $root/dev; mkdir $root/dev/shm $root/dev/pts
for name in null zero full random urandom tty; do
  touch $root/dev/$name; mount --bind /dev/$name $root/dev/$name
done
mount -t tmpfs tmpfs $root/dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts $root/dev/pts; ln -s pts/ptmx $root/dev/ptmx
for name in {" ".join(OF_THE_KERNEL)}; do
  ln -sf /dev/null $root/etc/systemd/system/$name.service
done
export container=test"""
SYSTEMD = System(
    "-systemd",
    "python3,gcc,libc6-dev,systemd-sysv,dbus",
    MOUNTS,
    ("/lib/systemd/systemd",),
    ("--cgroup", "--ipc", "--uts"),
)


def cgroup_root() -> Path:
    """Return where control groups of version 2 are mounted."""
    command = ["findmnt", "-n", "-t", "cgroup2", "-o", "TARGET"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Path(shown.splitlines()[0])


def remove(group: Path) -> None:
    """Remove a control group and those below it, when their processes have ended."""

    def is_empty() -> bool:
        return "populated 0" in (group / "cgroup.events").read_text()

    wait_for("the end of the machine", is_empty, group / "cgroup.events")
    for folder, *_ in os.walk(group, topdown=False):
        os.rmdir(folder)


def has_booted(started: Machine) -> bool:
    shown = started.run("systemctl", "is-system-running").stdout.strip()
    return shown in ("running", "degraded")


@contextmanager
def systemd_machine(folder: Path) -> Iterator[Machine]:
    """Start a machine with the release of this one, and wait until its services run."""
    group = cgroup_root() / f"busbar-test-{os.getpid()}"
    group.mkdir()
    try:
        release = release_named(own_release()[0])
        with machine(release, folder, system=SYSTEMD, group=group) as found:
            wait_for("systemd", lambda: has_booted(found), group / "cgroup.events")
            yield found
    finally:
        remove(group)
