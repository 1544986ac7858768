"""The agent, killed at a step of a change.

Usage: python -m tests.system.killed_agent FILE ARGUMENT..., as `python -m nodes ARGUMENT...`. FILE
names the step at which the process is killed: before or after the launcher applies a desired state.
The process removes FILE first, so the next one goes on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from nodes.__main__ import main
from nodes.agent import Agent

STEPS = ("before the launcher", "after the launcher")


def kill_at_steps(file: Path) -> None:
    def reach(step: str) -> None:
        if file.exists() and file.read_text() == step:
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    apply = Agent._apply_newest

    def apply_and_reach(self: Agent) -> None:
        reach(STEPS[0])
        apply(self)
        reach(STEPS[1])

    Agent._apply_newest = apply_and_reach  # type: ignore[method-assign]


if __name__ == "__main__":
    kill_at_steps(Path(sys.argv.pop(1)))
    sys.exit(main())
