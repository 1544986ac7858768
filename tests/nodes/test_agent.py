"""Inventory messages of the agent when its GPUs change, and the grants that it applies."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nodes import agent as agents
from nodes.agent import Agent
from nodes.credential_keeper import CredentialKeeper
from nodes.gpus import Gpu, Nvml
from nodes.host_access import HOST_MEMORY
from nodes.launcher_control import (
    Grants,
    LauncherControl,
    LauncherError,
    SessionList,
    SessionReport,
)
from nodes.launcher_layouts import ShareRecord
from nodes.messages import COMPUTE_LIMIT
from nodes.protocol import fleet_pb2
from nodes.suspensions import SuspensionList
from tests.remoting.node import EVENT_SECONDS
from tests.session_reports import SESSION


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

    def read(self, index: int, reader: str) -> None:
        pass


class UnreachableLauncher:
    def sessions(self) -> Any:
        raise LauncherError("unreachable")


class IsolatingLauncher:
    """A launcher whose layers of isolation and abilities a test changes."""

    def __init__(self, *layers: str) -> None:
        self.layers = layers
        self.abilities: dict[str, Any] = {}

    def sessions(self) -> SessionList:
        return SessionList(1, 8445, (), self.layers, **self.abilities)


async def inventories(agent: Agent) -> list[fleet_pb2.Inventory]:
    """Check the GPUs and return the inventories that the agent then sends."""
    await agent.check_gpus()
    return sent(agent)


async def inventories_of_isolation(agent: Agent) -> list[fleet_pb2.Inventory]:
    await agent.check_isolation(await agent._sessions())
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


def test_measured_context_is_sent_once(agent: Agent, nvml: FakeNvml) -> None:
    assert isinstance(nvml.current, list)
    asyncio.run(agent._send_inventory())
    (before,) = sent(agent)
    assert not before.gpus[0].HasField("context_bytes")
    agent.context_bytes[nvml.current[0].uuid] = 415 << 20
    (inventory,) = asyncio.run(inventories(agent))
    assert inventory.gpus[0].context_bytes == 415 << 20
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
    agent.host_memory_closed = False
    (inventory,) = asyncio.run(inventories_of_isolation(agent))
    assert list(inventory.isolation) == ["seccomp", "network"]
    assert asyncio.run(inventories_of_isolation(agent)) == []
    launcher.layers = ("seccomp",)
    (inventory,) = asyncio.run(inventories_of_isolation(agent))
    assert list(inventory.isolation) == ["seccomp"]


def test_replaced_launcher_with_other_abilities_is_sent_once(agent: Agent) -> None:
    launcher = IsolatingLauncher()
    agent.launcher = cast("LauncherControl", launcher)
    assert asyncio.run(inventories_of_isolation(agent)) == []
    launcher.abilities = {"over": ()}
    (inventory,) = asyncio.run(inventories_of_isolation(agent))
    assert inventory.resizes and not inventory.suspends
    assert asyncio.run(inventories_of_isolation(agent)) == []
    launcher.abilities |= {"suspensions": SuspensionList(0, 0, ())}
    (inventory,) = asyncio.run(inventories_of_isolation(agent))
    assert inventory.resizes and inventory.suspends


def test_restarted_launcher_does_not_change_the_isolation(agent: Agent) -> None:
    launcher = IsolatingLauncher("seccomp")
    agent.launcher = cast("LauncherControl", launcher)
    agent.host_memory_closed = True
    asyncio.run(inventories_of_isolation(agent))
    launcher.layers = ()
    assert asyncio.run(inventories_of_isolation(agent)) == []


def test_isolation_is_unknown_until_the_driver_was_asked_about_host_memory(agent: Agent) -> None:
    agent.launcher = cast("LauncherControl", IsolatingLauncher("seccomp"))
    assert asyncio.run(inventories_of_isolation(agent)) == []
    agent.host_memory_closed = True
    (inventory,) = asyncio.run(inventories_of_isolation(agent))
    assert list(inventory.isolation) == ["seccomp", HOST_MEMORY]


@pytest.mark.parametrize("closed", [True, False])
def test_launcher_refuses_sessions_that_need_closed_host_memory_where_it_is_open(
    agent: Agent, slow: SlowLauncher, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    monkeypatch.setattr(agents, "host_memory_is_closed", lambda: closed)
    monkeypatch.setattr(agents, "measure_contexts", lambda gpus: {g.uuid: 0 for g in gpus})
    agent.gpus = agent.nvml.gpus()
    slow.goes_on.set()
    required = fleet_pb2.Grant(
        allocation_id=uuid.uuid4().bytes,
        tenant_id=uuid.uuid4().bytes,
        required_isolation=["seccomp", HOST_MEMORY],
    )
    asyncio.run(receive(agent, 1, required))
    (grants,) = slow.applied
    assert grants.grants[0].required_isolation == {"seccomp"} | (set() if closed else {HOST_MEMORY})


@dataclass
class SlowLauncher:
    """A launcher that is down, and whose first request afterwards waits for `goes_on`."""

    is_down: bool = False
    applied: list[Grants] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)

    def apply(self, grants: Grants) -> None:
        if self.is_down:
            raise LauncherError("unreachable")
        if not self.begun.is_set():
            self.begun.set()
            assert self.goes_on.wait(10)
        self.applied.append(grants)

    def sessions(self) -> SessionList:
        if self.is_down:
            raise LauncherError("unreachable")
        return SessionList(self.applied[-1].generation if self.applied else 0, 8445, ())


@pytest.fixture
def slow(agent: Agent) -> SlowLauncher:
    launcher = SlowLauncher()
    identity = SimpleNamespace(node_id=str(uuid.uuid4()), node_name="node1")
    keeper = SimpleNamespace(
        credentials=SimpleNamespace(identity=identity),
        fleet_address="appliance",
        expect_authorities=lambda authorities: None,
    )
    agent.launcher = cast("LauncherControl", launcher)
    agent.keeper = cast("CredentialKeeper", keeper)
    agent.gpus = []
    return launcher


async def receive(agent: Agent, generation: int, *grants: fleet_pb2.Grant) -> None:
    async def stream() -> AsyncIterator[fleet_pb2.ApplianceMessage]:
        desired = fleet_pb2.DesiredState(
            generation=generation, appliance_seconds=1000, grants=grants
        )
        yield fleet_pb2.ApplianceMessage(appliance_seconds=1000, desired_state=desired)

    await agent._receive(cast("Any", stream()))


@pytest.mark.parametrize(("worked_seconds", "longest"), [(20.0, 0.6), (3.0, 18.0)])
def test_delay_starts_again_after_a_connection_that_worked_for_a_while(
    agent: Agent,
    slow: SlowLauncher,
    monkeypatch: pytest.MonkeyPatch,
    worked_seconds: float,
    longest: float,
) -> None:
    """One that the appliance ends at once does not count: a refused node must not hammer it."""
    slow.goes_on.set()
    delays = agent.retry_delays
    failed = [delays.next() for _ in range(7)]
    assert failed[0] <= 0.6 and failed[-1] >= 12
    asyncio.run(receive(agent, 1))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + worked_seconds)
    delay = delays.next()
    assert 0.6 * longest < delay <= longest


def test_older_grants_never_replace_newer_ones(agent: Agent, slow: SlowLauncher) -> None:
    """The stream that brought the older ones breaks while they are sent to the launcher."""

    async def reconnect() -> None:
        older = asyncio.create_task(receive(agent, 1))
        await asyncio.to_thread(slow.begun.wait, 10)
        older.cancel()
        newer = asyncio.create_task(receive(agent, 2))
        await asyncio.wait([newer], timeout=0.2)
        slow.goes_on.set()
        await newer

    asyncio.run(reconnect())
    assert [g.generation for g in slow.applied] == [1, 2]


def test_desired_state_that_finds_no_launcher_does_not_end_the_agent(
    agent: Agent, slow: SlowLauncher
) -> None:
    slow.is_down = True
    asyncio.run(receive(agent, 1))
    slow.is_down = False
    slow.goes_on.set()
    asyncio.run(receive(agent, 2))
    assert [g.generation for g in slow.applied] == [2]


def test_lower_generation_of_a_database_that_lost_commits_reaches_the_launcher(
    agent: Agent, slow: SlowLauncher
) -> None:
    slow.goes_on.set()
    for generation in (3, 2):
        asyncio.run(receive(agent, generation))
    slow.is_down = True
    asyncio.run(receive(agent, 1))
    slow.is_down = False
    assert agent._must_apply(slow.sessions())
    asyncio.run(agent._apply())
    assert [g.generation for g in slow.applied] == [3, 2, 1]
    assert not agent._must_apply(slow.sessions())


def test_grants_that_are_applied_late_have_the_clock_of_now(
    agent: Agent, slow: SlowLauncher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the launcher would accept tickets that have expired, and refuse new ones."""
    slow.goes_on.set()
    slow.is_down = True
    asyncio.run(receive(agent, 1))
    slow.is_down = False
    now = agents.boot_seconds()
    monkeypatch.setattr(agents, "boot_seconds", lambda: now + 300)
    asyncio.run(agent._apply())
    (applied,) = slow.applied
    assert 1299 <= applied.appliance_seconds <= 1301


@dataclass
class StoppedLauncher:
    """A launcher that answers when it `goes_on`."""

    answer: SessionList
    goes_on: threading.Event = field(default_factory=threading.Event)

    def sessions(self) -> SessionList:
        assert self.goes_on.wait(EVENT_SECONDS)
        return self.answer


def session_with(enforcement: str) -> SessionReport:
    return replace(SESSION, session_id=uuid.uuid4(), enforcement=enforcement)


async def next_limits(agent: Agent) -> list[str]:
    """Return how the shares of the sessions in the next message are enforced."""
    message = await asyncio.wait_for(agent.outbox._queue.get(), EVENT_SECONDS)
    return [s.isolation["compute_limit"] for s in message.report.sessions]


def test_shares_are_reported_as_unenforced_while_the_launcher_is_stopped(agent: Agent) -> None:
    listed = SessionList(1, 8445, (session_with("turns"), session_with("alone")))
    launcher = StoppedLauncher(listed)
    agent.launcher = cast("LauncherControl", launcher)

    async def poll() -> None:
        agent._send_report(listed, ())
        assert await next_limits(agent) == [COMPUTE_LIMIT["turns"], COMPUTE_LIMIT["alone"]]
        polled = asyncio.create_task(agent._reconcile_soon())
        assert await next_limits(agent) == [COMPUTE_LIMIT["unenforced"], COMPUTE_LIMIT["alone"]]
        launcher.goes_on.set()
        assert agents.summary_of(*await polled) != agent._last_summary

    asyncio.run(poll())


def test_shares_are_reported_as_unenforced_once_after_the_end_of_the_launcher(
    agent: Agent,
) -> None:
    async def poll() -> None:
        agent._report_unenforced()
        assert agent.outbox._queue.empty()
        agent._send_report(SessionList(1, 8445, (session_with("turns"),)), ())
        await next_limits(agent)
        for _ in range(2):
            agent._report_unenforced()
        assert await next_limits(agent) == [COMPUTE_LIMIT["unenforced"]]
        assert agent.outbox._queue.empty()

    asyncio.run(poll())


def test_report_without_the_launcher_repeats_no_received_shares(agent: Agent) -> None:
    share = ShareRecord(uuid.uuid4().bytes, (50,))
    listed = SessionList(1, 8445, (session_with("turns"),), shares=(share,))
    agent._send_report(listed, ())
    agent._report_unenforced()
    shares = [len(agent.outbox._queue.get_nowait().report.shares) for _ in range(2)]
    assert shares == [1, 0]


def test_part_that_ends_by_an_error_ends_the_agent(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service starts it again; without a part it would run on and look healthy."""

    async def fail() -> None:
        raise ValueError("on purpose")

    async def stay() -> None:
        await agent.stop.wait()

    monkeypatch.setattr(agent, "keeper", SimpleNamespace(run=stay))
    monkeypatch.setattr(agent, "_stay_connected", stay)
    monkeypatch.setattr(agent, "_watch_processes", fail)
    with pytest.raises(ValueError, match="on purpose"):
        asyncio.run(asyncio.wait_for(agent.run(), 60))
