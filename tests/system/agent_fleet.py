"""Many agents in one process: real agents with a launcher that only remembers its grants.

Usage: python -m tests.system.agent_fleet FOLDER, which holds the folders of enrolled nodes.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import cast

from nodes.agent import Agent
from nodes.credential_keeper import CredentialKeeper
from nodes.gpus import Gpu, Nvml
from nodes.launcher_control import Grants, LauncherControl, SessionList


class NoGpus:
    def gpus(self) -> list[Gpu]:
        return []

    def driver_version(self) -> str:
        return "1"

    def cuda_version(self) -> str:
        return "13.0"

    def software(self) -> bool:
        return True


class RememberingLauncher:
    def __init__(self) -> None:
        self.generation = 0

    def apply(self, grants: Grants) -> None:
        self.generation = grants.generation

    def sessions(self) -> SessionList:
        return SessionList(self.generation, 0)


async def run(folder: Path) -> None:
    agents = [
        Agent(
            CredentialKeeper(node),
            cast(LauncherControl, RememberingLauncher()),
            [],
            cast(Nvml, NoGpus()),
        )
        for node in sorted(folder.iterdir())
    ]
    await asyncio.gather(*(agent.run() for agent in agents))


if __name__ == "__main__":
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    asyncio.run(run(Path(sys.argv[1])))
