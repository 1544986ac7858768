"""When a running agent asks the driver again whether kernels can address host memory."""

from __future__ import annotations

import asyncio
import queue
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from nodes import agent as agents
from nodes import host_access
from nodes.agent import Agent
from nodes.credential_keeper import CredentialKeeper
from nodes.gpus import Nvml
from nodes.host_access import HOST_MEMORY
from nodes.launcher_control import Grants, LauncherControl, LauncherError, SessionList
from nodes.protocol import fleet_pb2
from tests.nodes.test_agent import FakeNvml, receive

DEADLINE_SECONDS = 60


class Driver:
    """A driver whose answers a test gives."""

    def __init__(self) -> None:
        self.answers: list[bool | None] = []
        self.asked: queue.SimpleQueue[bool | None] = queue.SimpleQueue()

    def host_memory_is_closed(self) -> bool | None:
        answer = self.answers.pop(0)
        self.asked.put(answer)
        return answer


class Launcher:
    """A launcher that has the layers which each of its grants requires."""

    def __init__(self) -> None:
        self.required: queue.SimpleQueue[frozenset[str]] = queue.SimpleQueue()
        self.refuses = 0
        """The number of grants to refuse from now on."""
        self._generation = 0

    def apply(self, grants: Grants) -> None:
        if self.refuses:
            self.refuses -= 1
            raise LauncherError("unreachable")
        self._generation = grants.generation
        self.required.put(grants.grants[0].required_isolation)

    def sessions(self) -> SessionList:
        return SessionList(self._generation, 8445, ())


class Keeper:
    credentials = SimpleNamespace(
        identity=SimpleNamespace(node_id=str(uuid.uuid4()), node_name="node1")
    )
    fleet_address = "appliance"

    def expect_authorities(self, authorities: object) -> None:
        pass

    async def run(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the folder that is there while the module is loaded."""
    folder = tmp_path / "nvidia_uvm"
    folder.mkdir()
    monkeypatch.setattr(host_access, "MODULE", folder)
    return folder


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, module: Path) -> Driver:
    driver = Driver()
    monkeypatch.setattr(agents, "host_memory_is_closed", driver.host_memory_is_closed)
    monkeypatch.setattr(agents, "measure_contexts", lambda gpus: {g.uuid: 0 for g in gpus})
    monkeypatch.setattr(agents, "POLL_SECONDS", 0.01)
    return driver


@pytest.fixture
def launcher() -> Launcher:
    return Launcher()


@pytest.fixture
def agent(driver: Driver, launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """Return an agent whose appliance sends one desired state, and no more."""
    agent = Agent(
        cast("CredentialKeeper", Keeper()),
        cast("LauncherControl", launcher),
        ["127.0.0.1"],
        cast("Nvml", FakeNvml()),
    )
    grant = fleet_pb2.Grant(
        allocation_id=uuid.uuid4().bytes,
        tenant_id=uuid.uuid4().bytes,
        required_isolation=[HOST_MEMORY],
    )

    async def connect() -> None:
        await receive(agent, 1, grant)
        await agent.stop.wait()

    monkeypatch.setattr(agent, "_run_connection", connect)
    return agent


def load_anew(module: Path) -> None:
    """Replace the folder by one with another inode."""
    loaded = module.with_name("loaded")
    loaded.mkdir()
    module.rmdir()
    loaded.rename(module)


async def requires(launcher: Launcher, *layers: str) -> None:
    """Wait until the launcher requires these layers for the grant."""
    while await asyncio.to_thread(launcher.required.get, timeout=DEADLINE_SECONDS) != {*layers}:
        pass


async def stop(agent: Agent, running: asyncio.Task[None]) -> None:
    agent.stop.set()
    await running


def test_driver_without_an_answer_is_asked_again_while_nothing_changes(
    agent: Agent, driver: Driver, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.answers = [None, True]
    monkeypatch.setattr(agents, "ASK_AGAIN_SECONDS", 0.0)

    async def run() -> None:
        running = asyncio.create_task(agent.run())
        await requires(launcher, HOST_MEMORY)
        await requires(launcher)
        await stop(agent, running)

    asyncio.run(run())


@pytest.mark.parametrize("closed", [True, False])
def test_module_that_was_loaded_anew_is_asked(
    agent: Agent, driver: Driver, launcher: Launcher, module: Path, closed: bool
) -> None:
    driver.answers = [not closed, closed]

    async def run() -> None:
        running = asyncio.create_task(agent.run())
        await requires(launcher, *([HOST_MEMORY] if closed else []))
        load_anew(module)
        await requires(launcher, *([] if closed else [HOST_MEMORY]))
        for answer in (not closed, closed):
            asked = await asyncio.to_thread(driver.asked.get, timeout=DEADLINE_SECONDS)
            assert asked is answer
        await stop(agent, running)

    asyncio.run(run())


def test_answer_reaches_a_launcher_that_was_away(
    agent: Agent, driver: Driver, launcher: Launcher, module: Path
) -> None:
    """A launcher that starts again has the grants of before."""
    driver.answers = [True, False]

    async def run() -> None:
        running = asyncio.create_task(agent.run())
        await requires(launcher)
        launcher.refuses = 3
        load_anew(module)
        await requires(launcher, HOST_MEMORY)
        await stop(agent, running)

    asyncio.run(run())


def test_unloaded_module_is_not_asked(agent: Agent, driver: Driver, module: Path) -> None:
    """The question would load it."""
    driver.answers = [True]

    async def run() -> None:
        connected = asyncio.create_task(agent._run_connection())
        await asyncio.to_thread(driver.asked.get, timeout=DEADLINE_SECONDS)
        module.rmdir()
        await agent.check_host_access()
        agent.stop.set()
        await connected

    asyncio.run(run())
    assert agent.host_memory_closed
