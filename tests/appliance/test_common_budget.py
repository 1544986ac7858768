"""The budgets of nodes at the gateway, with a controller that works as long as a part is charged.

Time is virtual: see `VirtualClock`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from appliance.fleet import message_budget
from appliance.fleet.connections import Controller, SampleClient, Stream
from appliance.fleet.message_budget import CommonBudget, work_of_part
from appliance.fleet.servicer import FleetServicer
from appliance.ipc import frames
from appliance.ipc.frames import POSITION, PROGRESS, Frame, Kind
from nodes.protocol import fleet_pb2, limits
from tests.appliance.test_gateway_errors import unused_port
from tests.appliance.virtual_clock import VirtualClock

SECONDS = 60.0
ROWS = 64
"""Of each part."""
LONGEST_SECONDS = 0.5
"""Of the report of a calm node, which takes one part."""
CALM = b"calm".rjust(16)


@dataclass
class Gateway:
    """A gateway whose controller applies one part after the other."""

    clock: VirtualClock
    slowness: float = 1.0
    """By how much the controller takes longer than a part is charged."""
    hostile_seconds: float = 0.0
    """Work of the controller for the hostile nodes."""
    calm_latencies: list[float] = field(default_factory=list)

    async def run(self, hostile: int, seconds: float = SECONDS) -> None:
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=ours)
        at_controller = await asyncio.open_connection(sock=theirs)
        controller = Controller(reader, writer, {}, SampleClient(b""))
        server = FleetServicer(controller, {}, 1.0, unused_port())
        names = [str(n).encode().rjust(16) for n in range(hostile)]
        tasks = [
            asyncio.create_task(controller.read()),
            asyncio.create_task(self.apply_parts(*at_controller)),
            *(asyncio.create_task(server._read(Stream(n, n.decode()), flood())) for n in names),
            asyncio.create_task(server._read(Stream(CALM, "calm"), self.calm_reports())),
        ]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in (writer, at_controller[1]):
            end.close()

    async def apply_parts(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await frames.read_frame_async(reader):
            (position,) = POSITION.unpack_from(request.body)
            report = fleet_pb2.Report.FromString(request.body[POSITION.size :])
            sessions = len(report.sessions)
            count = min(ROWS, sessions - position)
            end = position + count
            work = work_of_part(count, count, sessions if end in (count, sessions) else 0)
            self.hostile_seconds += work if request.node != CALM else 0
            await asyncio.sleep(self.slowness * work)
            body = PROGRESS.pack(count, count, end, end < sessions)
            writer.write(Frame(Kind.REPLY, request.call, body=body).encode())

    async def calm_reports(self) -> AsyncIterator[fleet_pb2.AgentMessage]:
        """Send a report each second, and measure the time until the next one can be sent."""
        for sequence in range(1, 1000):
            begin = self.clock.now
            yield report_of(sequence, 1)
            self.calm_latencies.append(self.clock.now - begin)
            await asyncio.sleep(1.0)


def report_of(sequence: int, sessions: int) -> fleet_pb2.AgentMessage:
    found = [
        fleet_pb2.Session(
            id=i.to_bytes(16), allocation_id=bytes(16), state="running", launches=sequence
        )
        for i in range(sessions)
    ]
    report = fleet_pb2.Report(sessions=found)
    return fleet_pb2.AgentMessage(boot_id="b", sequence=sequence, report=report)


async def flood() -> AsyncIterator[fleet_pb2.AgentMessage]:
    """Send changed reports of 1,500 sessions without pause."""
    reports = [report_of(1, limits.MAX_SESSIONS), report_of(2, limits.MAX_SESSIONS)]
    for sequence in range(1, 100_000):
        message = reports[sequence % 2]
        message.sequence = sequence
        yield message


def test_one_node_takes_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway(clock := VirtualClock(monkeypatch))
    clock.run(gateway.run(1))
    permitted = message_budget.BURST_SECONDS + message_budget.SHARE * SECONDS
    assert 0.5 * permitted < gateway.hostile_seconds < 1.1 * permitted
    assert max(gateway.calm_latencies) < LONGEST_SECONDS


def run_twenty(monkeypatch: pytest.MonkeyPatch) -> Gateway:
    gateway = Gateway(clock := VirtualClock(monkeypatch))
    clock.run(gateway.run(20))
    assert len(gateway.calm_latencies) > 20
    return gateway


def test_twenty_nodes_take_the_common_share_and_a_calm_one_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = run_twenty(monkeypatch)
    burst = message_budget.COMMON_BURST_SECONDS + message_budget.LARGEST_PART_SECONDS
    permitted = burst + message_budget.COMMON_SHARE * SECONDS
    assert 0.5 * permitted < gateway.hostile_seconds < 1.1 * permitted
    assert max(gateway.calm_latencies) < LONGEST_SECONDS


def test_parts_do_not_pile_up_at_a_slow_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other writes wait behind the queued parts. Without a limit of turns the calm node misses."""
    gateway = Gateway(clock := VirtualClock(monkeypatch), slowness=5.0)
    clock.run(gateway.run(20))
    parts = 1 + message_budget.MAX_TURNS
    largest = gateway.slowness * message_budget.LARGEST_PART_SECONDS
    assert len(gateway.calm_latencies) > 20
    assert max(gateway.calm_latencies[1:]) < parts * largest + LONGEST_SECONDS


def test_twenty_nodes_without_the_common_budget_delay_a_calm_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def enter_at_once(self: CommonBudget, own_balance: float) -> None:
        self._turns += 1

    monkeypatch.setattr(CommonBudget, "enter", enter_at_once)
    gateway = run_twenty(monkeypatch)
    assert gateway.hostile_seconds > 1.1 * message_budget.COMMON_SHARE * SECONDS
    assert max(gateway.calm_latencies) > LONGEST_SECONDS


def test_heartbeat_does_not_wait_for_the_common_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, common = VirtualClock(monkeypatch), CommonBudget()
    common.charge(100 * SECONDS)
    budget = message_budget.MessageBudget(common)
    heartbeat = fleet_pb2.AgentMessage(heartbeat=fleet_pb2.Heartbeat())

    async def seconds_of_two() -> list[float]:
        moments = [clock.now]
        for _ in range(2):
            await budget.receive(heartbeat, 1.0)
            moments.append(clock.now)
        return [later - earlier for earlier, later in itertools.pairwise(moments)]

    first, second = clock.run(seconds_of_two())
    assert first == 0, "the only one in half an interval"
    assert second > SECONDS


def test_waiting_node_that_leaves_does_not_take_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, common = VirtualClock(monkeypatch), CommonBudget()
    common.charge(message_budget.COMMON_BURST_SECONDS + 1.0)

    async def enter_beside_one_that_leaves() -> None:
        gone = asyncio.create_task(common.enter(1.0))
        stays = asyncio.create_task(common.enter(0.5))
        await asyncio.sleep(0.5)
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone
        await stays
        common.leave(0)

    begin = clock.now
    clock.run(enter_beside_one_that_leaves())
    assert clock.now - begin == pytest.approx(1.0 / message_budget.COMMON_SHARE, abs=0.01)
