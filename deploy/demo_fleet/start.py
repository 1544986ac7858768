"""Start of a demo fleet beside the appliance of `./run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.demo_fleet.node import node_name
from nodes.enrolment import enrol
from nodes.errors import NodeError
from nodes.processes import SupervisedProcess

if TYPE_CHECKING:
    from deploy.supervisor import Stack

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = "demo-fleet"
MAX_NODES = 100


class DemoFleet:
    """The simulated nodes and users of a stack. `prepare` comes before the appliance starts."""

    def __init__(self, stack: Stack, nodes: int) -> None:
        self.stack, self.nodes = stack, nodes
        self.folder = stack.data / FOLDER
        self.process = SupervisedProcess(
            "demo-fleet",
            [sys.executable, "-m", "deploy.demo_fleet", str(self.folder), str(nodes)],
            stack.appliance_environment(),
            stack.logs / "demo-fleet.log",
            folder=ROOT,
        )

    def prepare(self) -> None:
        """Create pool, projects and users. Raises SystemExit if the appliance has real nodes."""
        self.folder.mkdir(exist_ok=True, mode=0o700)
        self._run("deploy.demo_fleet.prepare", str(self.folder / "tokens.json"))

    def start(self) -> None:
        """Enrol the nodes that are new, and start their agents and users."""
        names = [node_name(i) for i in range(self.nodes)]
        missing = [n for n in names if not (self.folder / n / "current").exists()]
        if missing:
            tokens = self.stack.manage(
                "create_enrolment_token", "--simulated", "--count", str(len(missing))
            )
            for name, token in zip(missing, tokens.split(), strict=True):
                self._enrol(name, token)
        self.process.start()

    def write_past(self) -> None:
        """Write 30 days of history for GPUs and projects that have none. Blocks."""
        self._run("deploy.demo_fleet.history", str(self.nodes))

    def stop(self) -> None:
        self.process.stop()

    def _enrol(self, name: str, token: str) -> None:
        try:
            enrol(self.folder / name, token, name)
        except NodeError as error:
            raise SystemExit(f"Enrolment of the simulated node {name} failed: {error}") from error

    def _run(self, module: str, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            env=self.stack.appliance_environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(done.stderr.strip()[-500:])
