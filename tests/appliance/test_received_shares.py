"""The compute share that an allocation received: reported by nodes, shown and recorded."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.allocations import sessions
from appliance.fleet.reports import process_report
from appliance.inventory.models import Node
from nodes.protocol import fleet_pb2
from tests.appliance.commands_in_process import BusbarOf
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
URL = "/api/v1/allocations"
SHARES = ("compute_received_percent", "compute_error_percent")
pytestmark = pytest.mark.django_db(transaction=True, databases=list(settings.DATABASES))


@pytest.fixture(autouse=True)
def _save_counters_of_each_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "COUNTER_SAVE_INTERVAL_SECONDS", 0.0)


@pytest.fixture
def node(add_node: Callable[..., Node]) -> Node:
    return add_node(gpus=2)


@pytest.fixture
def alice(cast: Cast, client_of: Clients) -> Any:
    return client_of(cast.alice)


@pytest.fixture
def allocation(alice: Any, node: Node) -> Any:
    """An allocation of 30 percent of two GPUs."""
    wanted = {"gpu_count": 2, "percent": 30, "same_node": True}
    created = body(alice.post(URL, wanted, format="json"))
    applied(node)
    return created


def session_of(allocation: Any, **changes: Any) -> fleet_pb2.Session:
    return fleet_pb2.Session(
        id=uuid.uuid4().bytes,
        allocation_id=uuid.UUID(allocation["id"]).bytes,
        state="running",
        opened_seconds=1,
        **changes,
    )


def report(node: Node, reported: list[fleet_pb2.Session], *received: float) -> None:
    """Process a report, with the shares of the first session's allocation if there are some."""
    node.refresh_from_db()
    message = fleet_pb2.Report(generation=node.generation, sessions=reported)
    if received:
        message.shares.add(allocation_id=reported[0].allocation_id, received_percent=received)
    process_report(node.pk, message)


def shares_of(row: dict[str, Any]) -> tuple[float | None, ...]:
    return tuple(row[name] for name in SHARES)


def shown(alice: Any, allocation: Any) -> tuple[Any, list[Any]]:
    """Return the allocation, and its sessions, as REST shows them."""
    listed = body(alice.get(f"/api/v1/sessions?allocation_id={allocation['id']}"))["items"]
    return body(alice.get(f"{URL}/{allocation['id']}")), listed


def test_share_and_error_stand_on_session_and_allocation(
    alice: Any, node: Node, allocation: Any
) -> None:
    report(node, [session_of(allocation), session_of(allocation)], 24.5, 26.25)
    row, listed = shown(alice, allocation)
    assert shares_of(row) == (25.38, -4.62)
    assert [shares_of(s) for s in listed] == [(25.38, -4.62)] * 2
    alone = body(alice.get(f"/api/v1/sessions/{listed[0]['id']}"))
    assert shares_of(alone) == (25.38, -4.62)


def test_commands_show_the_share_in_words(
    alice: Any, node: Node, allocation: Any, busbar_of: BusbarOf
) -> None:
    report(node, [session_of(allocation)], 24.5, 26.25)
    _, (session,) = shown(alice, allocation)
    for kind, row in (("allocation", allocation), ("session", session)):
        text = busbar_of(alice)(kind, "show", row["id"]).out
        assert "25.38 % (-4.62 points from the granted share)" in text, text


def test_gpu_without_turns_does_not_count(alice: Any, node: Node, allocation: Any) -> None:
    report(node, [session_of(allocation)], math.nan, 33.0)
    assert shares_of(shown(alice, allocation)[0]) == (33.0, 3.0)


@pytest.mark.parametrize("received", [(), (math.nan, math.nan)], ids=["older agent", "no turns"])
def test_share_that_is_not_reported_is_null(
    alice: Any, node: Node, allocation: Any, received: tuple[float, ...]
) -> None:
    session = session_of(allocation)
    report(node, [session], 10.0, 10.0)
    report(node, [session], *received)
    row, listed = shown(alice, allocation)
    assert shares_of(row) == shares_of(listed[0]) == (None, None)


def test_closed_session_has_no_share(alice: Any, node: Node, allocation: Any) -> None:
    report(node, [session_of(allocation)], 10.0, 10.0)
    report(node, [])
    row, listed = shown(alice, allocation)
    assert listed[0]["state"] == "closed"
    assert shares_of(row) == shares_of(listed[0]) == (None, None)


def test_allocation_shows_the_longest_drain_of_its_open_sessions(
    alice: Any, node: Node, allocation: Any
) -> None:
    assert shown(alice, allocation)[0]["longest_drain_ms"] is None
    first, second = (session_of(allocation, longest_drain_ms=ms) for ms in (90, 12))
    report(node, [first, second])
    assert shown(alice, allocation)[0]["longest_drain_ms"] == 90
    report(node, [second])
    assert shown(alice, allocation)[0]["longest_drain_ms"] == 12


def test_share_has_a_history(alice: Any, node: Node, allocation: Any) -> None:
    session = session_of(allocation)
    report(node, [session], 24.5, math.nan)
    partitions = [p["id"] for p in shown(alice, allocation)[0]["partitions"]]
    owners = [f"sessions/{uuid.UUID(bytes=session.id)}", *(f"partitions/{p}" for p in partitions)]
    found = []
    for owner in owners:
        items = body(alice.get(f"/api/v1/{owner}/metrics?resolution_seconds=0"))["items"]
        points = {i["metric"]: i["points"] for i in items}
        found.append([p[1] for p in points.get("compute_received_percent", [])])
    assert found == [[24.5], [24.5], []]
