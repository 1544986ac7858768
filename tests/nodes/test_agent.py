"""Inventory messages of the agent when its GPUs change."""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import replace
from typing import Any, cast

import pytest

from nodes.agent import Agent
from nodes.credential_keeper import CredentialKeeper
from nodes.gpus import Gpu, Nvml
from nodes.launcher_control import LauncherControl, LauncherError, SessionList
from nodes.protocol import fleet_pb2


class FakeNvml:
    """NVML of a machine whose GPUs a test changes."""

    def __init__(self) -> None:
        self.current: list[Gpu] | Exception = [
            Gpu(uuid.uuid4(), 0, "Test GPU", 1 << 30, "9.0", "0000:01:00.0")
        ]

    def gpus(self) -> list[Gpu]:
        if isinstance(self.current, Exception):
            raise self.current
        return list(self.current)

    def driver_version(self) -> str:
        return "580.95.05"

    def cuda_version(self) -> str:
        return "13.0"

    def software(self) -> bool:
        return False


class UnreachableLauncher:
    def sessions(self) -> Any:
        raise LauncherError("unreachable")


class IsolatingLauncher:
    """A launcher whose layers of isolation a test changes."""

    def __init__(self, *layers: str) -> None:
        self.layers = layers

    def sessions(self) -> SessionList:
        return SessionList(1, 8445, (), self.layers)


async def inventories(agent: Agent) -> list[fleet_pb2.Inventory]:
    """Check the GPUs and return the inventories that the agent then sends."""
    await agent.check_gpus()
    return sent(agent)


async def inventories_of_isolation(agent: Agent) -> list[fleet_pb2.Inventory]:
    await agent.check_isolation(agent.launcher.sessions())
    return sent(agent)


def sent(agent: Agent) -> list[fleet_pb2.Inventory]:
    found = []
    while not agent.outbox._queue.empty():
        found.append(agent.outbox._queue.get_nowait().inventory)
    return found


@pytest.fixture
def nvml() -> FakeNvml:
    return FakeNvml()


@pytest.fixture
def agent(nvml: FakeNvml) -> Agent:
    return Agent(
        cast("CredentialKeeper", None),
        cast("LauncherControl", UnreachableLauncher()),
        ["127.0.0.1"],
        cast("Nvml", nvml),
    )


def test_unchanged_gpus_send_no_inventory(agent: Agent) -> None:
    assert asyncio.run(inventories(agent)) == []


def test_changed_gpu_is_sent_once(
    agent: Agent, nvml: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(nvml.current, list)
    (gpu,) = nvml.current
    nvml.current = [replace(gpu, mig=True)]
    with caplog.at_level(logging.WARNING):
        (inventory,) = asyncio.run(inventories(agent))
    assert "GPU inventory changed: added=0 removed=0 changed=1" in caplog.text
    assert inventory.gpus[0].mig
    assert inventory.cuda_version == "13.0"
    assert inventory.gpus[0].pci_bus_id == "0000:01:00.0"
    assert asyncio.run(inventories(agent)) == []


def test_failed_enumeration_sends_no_inventory(agent: Agent, nvml: FakeNvml) -> None:
    nvml.current = RuntimeError("fell off the bus")
    assert asyncio.run(inventories(agent)) == []


def test_removed_gpu_sends_an_inventory_without_it(
    agent: Agent, nvml: FakeNvml, caplog: pytest.LogCaptureFixture
) -> None:
    nvml.current = []
    with caplog.at_level(logging.WARNING):
        (inventory,) = asyncio.run(inventories(agent))
    assert not inventory.gpus
    assert "added=0 removed=1 changed=0" in caplog.text


def test_changed_isolation_is_sent_once(agent: Agent) -> None:
    launcher = IsolatingLauncher("seccomp", "network")
    agent.launcher = cast("LauncherControl", launcher)
    (inventory,) = asyncio.run(inventories_of_isolation(agent))
    assert list(inventory.isolation) == ["seccomp", "network"]
    assert asyncio.run(inventories_of_isolation(agent)) == []
    launcher.layers = ("seccomp",)
    (inventory,) = asyncio.run(inventories_of_isolation(agent))
    assert list(inventory.isolation) == ["seccomp"]


def test_restarted_launcher_does_not_change_the_isolation(agent: Agent) -> None:
    launcher = IsolatingLauncher("seccomp")
    agent.launcher = cast("LauncherControl", launcher)
    asyncio.run(inventories_of_isolation(agent))
    launcher.layers = ()
    assert asyncio.run(inventories_of_isolation(agent)) == []
