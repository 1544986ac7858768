"""Programs whose session servers run native code of a hostile tenant (`tests/null_driver`)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deploy.supervisor import wait_for
from nodes.launcher_control import SessionReport
from nodes.privileges import SPAWNER_CAPABILITIES
from nodes.service import UNPRIVILEGED_ID
from tests.remoting.node import LocalNode

ENDED = -1
"""Result of an attack that the session did not survive."""

RIGHTS: dict[str, dict[str, Any]] = {"own": {}}
"""Options of nodes whose spawners have the rights of this user, those of their unit, or none."""
if os.getuid() == 0:
    RIGHTS |= {
        "unit": {"user": UNPRIVILEGED_ID, "capabilities": tuple(SPAWNER_CAPABILITIES)},
        "none": {"user": UNPRIVILEGED_ID},
    }


class Attacker:
    """Runs attacks in session servers of a node."""

    def __init__(self, node: LocalNode, program: Path) -> None:
        self.node, self.program = node, program

    def start(self, *attacks: str) -> subprocess.Popen[str]:
        """Start a program whose session server runs the attacks."""
        return subprocess.Popen(
            [self.program, *attacks],
            env=self.node.remote_environment(),
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            text=True,
        )

    def results(self, *attacks: str) -> list[int]:
        """Return 0 for an attack that worked, else an errno, or ENDED."""
        out, _ = self.start(*attacks).communicate(timeout=60)
        return [int(line) for line in out.split()]

    def _report(self, client_pid: int) -> SessionReport:
        """Return the session of a program. Blocks until its server has reported its measures."""

        def report() -> SessionReport | None:
            found = [s for s in self.node.sessions() if s.client_pid == client_pid]
            return found[0] if found and found[0].isolation["no_new_privs"] else None

        wait_for("the session's report", lambda: report() is not None, self.node.folder)
        session = report()
        assert session is not None
        return session

    @contextmanager
    def paused_session(self) -> Iterator[SessionReport]:
        """Yield a running session whose server waits in native code."""
        with self.start("call 39", "pause") as program:
            try:
                assert program.stdout is not None and program.stdout.readline() == "0\n"
                yield self._report(program.pid)
            finally:
                program.kill()
