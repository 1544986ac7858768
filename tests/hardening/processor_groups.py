"""Control groups that limit or raise the processor time of processes (version 2, else 1)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from deploy.supervisor import wait_for

PERIOD_MICROSECONDS = 100_000
END_SECONDS = 10.0
RESERVED_SHARES, RESERVED_WEIGHT = "10240", "1000"
"""Ten times the processor time of other processes, while there is contention."""


class ProcessorGroups:
    """A group with groups in it, which are removed with it. Needs root."""

    def __init__(self) -> None:
        mount = Path("/sys/fs/cgroup")
        self._is_version_2 = (mount / "cgroup.controllers").exists()
        parent = mount if self._is_version_2 else mount / "cpu"
        self._parent, self._count = parent, 0
        self.folder = parent / f"busbar-bench-{os.getpid()}"
        self.folder.mkdir()
        if self._is_version_2:
            for folder in (parent, self.folder):
                (folder / "cgroup.subtree_control").write_text("+cpu")

    def _make(self, pids: Iterable[int], name: str, value: str) -> None:
        group = self.folder / str(self._count)
        self._count += 1
        group.mkdir()
        (group / name).write_text(value)
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))

    def limit(self, pids: Iterable[int], share: float) -> None:
        """Let the processes together use at most this share of a core."""
        quota = int(share * PERIOD_MICROSECONDS)
        if self._is_version_2:
            self._make(pids, "cpu.max", f"{quota} {PERIOD_MICROSECONDS}")
        else:
            self._make(pids, "cpu.cfs_quota_us", str(quota))

    def reserve(self, pids: Iterable[int]) -> None:
        """Let the processes go first."""
        if self._is_version_2:
            self._make(pids, "cpu.weight", RESERVED_WEIGHT)
        else:
            self._make(pids, "cpu.shares", RESERVED_SHARES)

    def remove(self) -> None:
        """Move the remaining processes out of the groups, and remove these."""
        for group in [g for g in self.folder.iterdir() if g.is_dir()]:
            for pid in (group / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    (self._parent / "cgroup.procs").write_text(pid)

            def is_removed(group: Path = group) -> bool:
                with suppress(OSError):
                    group.rmdir()
                return not group.exists()

            wait_for(f"the end of {group}", is_removed, group / "cgroup.procs", END_SECONDS)
        self.folder.rmdir()


@contextmanager
def processor_groups() -> Iterator[ProcessorGroups]:
    groups = ProcessorGroups()
    try:
        yield groups
    finally:
        groups.remove()
