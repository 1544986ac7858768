"""The agent, killed at a step of a resize.

Usage: python -m tests.system.killed_agent FILE ARGUMENT..., as `python -m nodes ARGUMENT...`. FILE
has a size in bytes and a step: the process is killed before or after the launcher applies the first
grants in which a partition has this size. It removes FILE first, so the next one goes on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from nodes.__main__ import main
from nodes.launcher_control import Grants, LauncherControl

STEPS = ("before the launcher", "after the launcher")


def kill_at_steps(file: Path) -> None:
    def reach(step: str, grants: Grants) -> None:
        armed = file.read_text() if file.exists() else ""
        sizes = {p.memory_bytes for g in grants.grants for p in g.partitions}
        if armed in {f"{size} {step}" for size in sizes}:
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    apply = LauncherControl.apply

    def apply_and_reach(self: LauncherControl, grants: Grants) -> None:
        reach(STEPS[0], grants)
        apply(self, grants)
        reach(STEPS[1], grants)

    LauncherControl.apply = apply_and_reach  # type: ignore[method-assign]


if __name__ == "__main__":
    kill_at_steps(Path(sys.argv.pop(1)))
    sys.exit(main())
