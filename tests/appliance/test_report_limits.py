"""Reports of one node: bounded transactions, ignored sessions, and the budget of its messages."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction

from appliance.activity.models import Event
from appliance.allocations import session_reports
from appliance.allocations.models import Session
from appliance.allocations.session_reports import record_sessions
from appliance.fleet import message_budget, reports
from appliance.fleet.backend import record_refusal
from appliance.fleet.connections import Controller, SampleClient, Stream
from appliance.fleet.message_budget import (
    CommonBudget,
    MessageBudget,
    MessageBudgets,
    work_of,
    work_of_part,
)
from appliance.fleet.servicer import FleetServicer
from appliance.inventory.models import Node
from appliance.ipc import frames
from appliance.ipc.frames import POSITION, PROGRESS, Frame, Kind
from nodes.protocol import fleet_pb2, limits
from tests.appliance.conftest import Cast, applied, body
from tests.appliance.test_allocations import changed, session_of
from tests.appliance.test_gateway_errors import unused_port
from tests.appliance.virtual_clock import VirtualClock

Clients = Callable[..., Any]
AddNode = Callable[..., Node]
TIMEOUT_SECONDS = 120.0
BUSY_SESSIONS = 350


def record_all(node: Node, reported: list[Any]) -> list[int]:
    """Apply a report until nothing is left. Return the number of rows of each transaction."""
    parts, position, more = [], 0, True
    while more:
        rows, _, position, more = record_sessions(
            node_id=node.pk, reported=reported, position=position
        )
        parts.append(rows)
    return parts


def test_invented_sessions_are_counted_once_and_not_stored(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    django_capture_on_commit_callbacks: Callable[..., Any],
) -> None:
    node = add_node()
    invented = [session_of(str(uuid.uuid4())) for _ in range(limits.MAX_SESSIONS)]
    events = Event.objects.count()

    def rows(reported: list[Any]) -> list[int]:
        with django_capture_on_commit_callbacks(execute=True):
            return record_all(node, reported)

    with pytest.raises(OSError), transaction.atomic():
        record_all(node, invented)
        raise OSError("the disk is full")
    assert sum(rows(invented)) == 1 and sum(rows(invented)) == 0
    assert sum(rows([*invented, session_of(str(uuid.uuid4()))])) == 1
    assert not Session.objects.exists() and Event.objects.count() == events
    shown = body(client_of(cast.vera).get(f"/api/v1/nodes/{node.pk}"))
    assert shown["ignored_sessions"] == limits.MAX_SESSIONS + 1


def test_large_report_is_applied_in_short_transactions(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    allocation = body(client_of(cast.alice).post("/api/v1/allocations", {}, format="json"))
    applied(node)
    held = [session_of(allocation["id"]) for _ in range(100)]
    opened = record_all(node, held)
    assert max(opened) <= 72 and Session.objects.count() == 100
    assert record_all(node, held) == [0], "an unchanged report changes nothing"
    closed = record_all(node, [])
    assert max(closed) <= 68 and sum(closed) == 400
    assert not Session.objects.exclude(state="closed").exists()
    assert record_all(node, [changed(s, state="closed") for s in held]) == [0]


def test_session_is_compared_once_per_report(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node()
    allocation = body(client_of(cast.alice).post("/api/v1/allocations", {}, format="json"))
    applied(node)
    held = [session_of(allocation["id"]) for _ in range(3 * session_reports.SLICE)]
    record_all(node, held)
    loaded = 0
    load = session_reports.OPEN_SESSIONS.objects

    def count(**values: Any) -> list[Session]:
        nonlocal loaded
        found = load(**values)
        loaded += len(found)
        return found

    monkeypatch.setattr(session_reports.OPEN_SESSIONS, "objects", count)
    parts = record_all(node, [changed(s, state="suspended") for s in held])
    assert len(parts) >= 3 and sum(parts) == len(held)
    assert loaded <= len(held) + len(parts) * session_reports.SLICE
    assert set(Session.objects.values_list("state", flat=True)) == {"suspended"}


def test_report_in_parts_is_parsed_once(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node()
    allocation = body(client_of(cast.alice).post("/api/v1/allocations", {}, format="json"))
    applied(node)
    owner = uuid.UUID(allocation["id"]).bytes
    sessions = [
        fleet_pb2.Session(id=uuid.uuid4().bytes, allocation_id=owner, state="running")
        for _ in range(3 * session_reports.SLICE)
    ]
    node.refresh_from_db()
    report = fleet_pb2.Report(generation=node.generation, sessions=sessions)
    parsed: list[fleet_pb2.Report] = []

    def parse(encoded: bytes) -> fleet_pb2.Report:
        parsed.append(fleet_pb2.Report.FromString(encoded))
        return parsed[-1]

    messages = SimpleNamespace(Report=SimpleNamespace(FromString=parse))
    monkeypatch.setattr(reports, "fleet_pb2", messages)
    unfinished, position, more, parts = reports.UnfinishedReports(), 0, True, 0
    while more:
        encoded = report.SerializeToString()
        _, _, position, more = unfinished.process(node.pk, encoded, position)
        parts += 1
    assert parts >= 3 and Session.objects.count() == len(sessions)
    assert len(parsed) == 1


def test_session_with_the_id_of_another_nodes_session_is_not_stored(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, other = add_node(), add_node()
    wanted = {"gpu_count": 2, "percent": 100}
    allocation = body(client_of(cast.alice).post("/api/v1/allocations", wanted, format="json"))
    applied(node), applied(other)
    session = session_of(allocation["id"])
    record_all(node, [session])
    record_all(other, [changed(session, program="stolen")])
    assert Session.objects.get().program == "python"


def test_stored_refused_calls_of_a_session_are_bounded(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    allocation = body(client_of(cast.alice).post("/api/v1/allocations", {}, format="json"))
    applied(node)
    session = session_of(allocation["id"])
    for turn in range(5):
        names = tuple(f"cuCall{turn}x{n}" for n in range(50))
        record_all(node, [changed(session, refused_calls=names)])
    assert len(Session.objects.get().refused_calls) == limits.MAX_REFUSED_CALLS


def test_refusal_makes_an_event(cast: Cast, add_node: AddNode) -> None:
    node = add_node()
    record_refusal(node.pk, "sessions: 3000 elements, at most 1500")
    assert "3000 elements" in Event.objects.get(kind="node.message_refused").message


def test_budget_permits_a_burst_and_then_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock(monkeypatch)
    budget = MessageBudget(CommonBudget())
    assert budget.charge(message_budget.BURST_SECONDS) == 0
    assert budget.charge(0.03) == pytest.approx(0.03 / message_budget.SHARE)
    clock.now += 10
    assert budget.charge(0) == 0
    clock.now += 1e6
    assert budget.charge(message_budget.BURST_SECONDS) == 0
    assert budget.charge(0.1) > 0, "an idle budget holds one burst"


def test_honest_node_is_never_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with BUSY_SESSIONS open sessions reports and samples every second for an hour."""
    clock = VirtualClock(monkeypatch)
    budget = MessageBudget(CommonBudget())
    sessions = [fleet_pb2.Session(program="x" * 400) for _ in range(BUSY_SESSIONS)]
    report = fleet_pb2.AgentMessage(report=fleet_pb2.Report(sessions=sessions))
    saved_rows = BUSY_SESSIONS // 5  # counters are saved every five seconds
    for _ in range(3600):
        work = work_of(report) + work_of(fleet_pb2.AgentMessage())
        work += work_of_part(saved_rows, len(sessions), len(sessions))
        assert budget.charge(work) == 0
        clock.now += 1


def test_refusals_of_a_node_make_one_event_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock(monkeypatch)
    budgets = MessageBudgets()
    made = 0
    for _ in range(600):
        made += budgets.of("serial").permits_event()
        clock.now += 1
    assert made == 10 and budgets.of("other").permits_event()


def test_number_of_budgets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_budget, "MAX_BUDGETS", 10)
    budgets = MessageBudgets()
    first = budgets.of("first")
    for n in range(20):
        budgets.of(str(n))
    assert len(budgets._budgets) == 10 and budgets.of("first") is not first


async def pauses_of(replies: list[tuple[int, int, int, bool]]) -> list[float]:
    """Return the pauses of the gateway while the controller applies a report in parts."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    controller_reader, controller_writer = await asyncio.open_connection(sock=theirs)
    controller = Controller(reader, writer, {}, SampleClient(b""))
    reading = asyncio.create_task(controller.read())
    budget, pauses = MessageBudget(CommonBudget()), []
    charge = budget.charge

    def record(seconds: float) -> float:
        pause = charge(seconds)
        if seconds:  # a node that waits for a turn charges nothing
            pauses.append(pause)
        return 0.0

    budget.charge = record  # type: ignore[method-assign]
    server = FleetServicer(controller, {}, 1.0, unused_port())
    applying = asyncio.create_task(
        server._apply_report(Stream(bytes(16), "serial"), b"report", 30, budget)
    )
    begin = 0
    for rows, compared, position, more in replies:
        request = await frames.read_frame_async(controller_reader)
        assert request is not None and request.body == POSITION.pack(begin) + b"report"
        body, begin = PROGRESS.pack(rows, compared, position, more), position
        reply = Frame(Kind.REPLY, request.call, body=body)
        controller_writer.write(reply.encode())
    await asyncio.wait_for(applying, TIMEOUT_SECONDS)
    reading.cancel()
    writer.close()
    controller_writer.close()
    return pauses


def test_gateway_continues_a_report_until_all_is_applied_and_charges_each_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies = [(3000, 10, 10, True), (3000, 20, 30, True), (1, 0, 30, False)]
    first, *others = VirtualClock(monkeypatch).run(pauses_of(replies))
    assert first == 0 and len(others) == 2 and min(others) > 0


def test_counters_of_ignored_sessions_are_forgotten_with_them(
    cast: Cast, add_node: AddNode, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    node = add_node()
    with django_capture_on_commit_callbacks(execute=True):
        record_all(node, [session_of(str(uuid.uuid4()))])
    assert node.pk in session_reports._ignored
    with django_capture_on_commit_callbacks(execute=True):
        record_all(node, [])
    assert node.pk not in session_reports._ignored
