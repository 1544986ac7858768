"""What the agent tells of its GPUs, and when."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from nodes.agent import Agent
from nodes.checkpoint import Identity
from nodes.gpus import Gpu, Nvml
from nodes.launcher_control import LauncherControl, LauncherError
from nodes.protocol import fleet_pb2


class Card:
    """NVML of a machine whose GPUs a test changes."""

    def __init__(self) -> None:
        self.now: list[Gpu] | Exception = [
            Gpu(uuid.uuid4(), 0, "Test GPU", 1 << 30, "9.0", "0000:01:00.0")
        ]

    def gpus(self) -> list[Gpu]:
        if isinstance(self.now, Exception):
            raise self.now
        return list(self.now)

    def driver_version(self) -> str:
        return "580.95.05"

    def cuda_version(self) -> str:
        return "13.0"

    def software(self) -> bool:
        return False


class Away:
    def sessions(self) -> Any:
        raise LauncherError("it is away")


async def told(agent: Agent) -> list[fleet_pb2.Inventory]:
    """What waits to be sent after a look."""
    await agent.look_at_gpus()
    found = []
    while not agent.outbox._queue.empty():
        found.append(agent.outbox._queue.get_nowait().inventory)
    return found


async def looks(tmp_path: Path) -> None:
    card = Card()
    agent = Agent(
        tmp_path,
        Identity("n", "node", "127.0.0.1:1"),
        cast("LauncherControl", Away()),
        ["127.0.0.1"],
        cast("Nvml", card),
    )
    assert isinstance(card.now, list)
    (whole,) = card.now
    assert await told(agent) == [], "nothing changed"
    card.now = [replace(whole, mig=True)]
    (inventory,) = await told(agent)
    assert (
        inventory.gpus[0].mig
        and inventory.cuda_version == "13.0"
        and inventory.gpus[0].pci_bus_id == "0000:01:00.0"
    )
    assert await told(agent) == [], "it was told already"
    card.now = RuntimeError("fell off the bus")
    assert await told(agent) == [], "what cannot be read says nothing"
    card.now = []
    (inventory,) = await told(agent)
    assert not inventory.gpus


def test_the_appliance_is_told_when_the_gpus_are_not_what_they_were(tmp_path: Path) -> None:
    asyncio.run(looks(tmp_path))
