"""A pool limits the time that work is late while others wait, and tells its nodes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.activity.models import Event
from appliance.allocations.session_reports import record_sessions
from appliance.fleet.desired_state import build_desired_state
from appliance.inventory.models import Node
from appliance.pools.models import Pool
from nodes.protocol.session_ends import TOO_LATE
from tests.appliance.commands_in_process import Busbar
from tests.appliance.conftest import Cast, applied, body
from tests.appliance.test_allocations import changed, session_of

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db(transaction=True, databases=list(settings.DATABASES))


@pytest.fixture
def node(add_node: Callable[..., Node]) -> Node:
    return add_node()


@pytest.fixture
def allocation(cast: Cast, client_of: Clients, node: Node) -> Any:
    created = body(client_of(cast.alice).post("/api/v1/allocations", {}, format="json"))
    applied(node)
    return created


def limit_late_work(olga: Any, seconds: int) -> Any:
    path = f"/api/v1/pools/{Pool.objects.get().pk}"
    changed = olga.patch(path, {"max_late_seconds": seconds}, format="json")
    assert changed.status_code == 200, body(changed)
    return body(olga.get(path))["max_late_seconds"]


def told(node: Node) -> int:
    (grant,) = build_desired_state(node.pk).grants
    return int(grant.max_late_seconds)


@pytest.mark.usefixtures("allocation")
def test_nodes_learn_the_limit_of_the_pool_for_the_allocations_that_they_hold(
    cast: Cast, client_of: Clients, node: Node
) -> None:
    olga = client_of(cast.olga)
    assert told(node) == 0
    for seconds in (60, 0):
        before = Node.objects.get().generation
        assert limit_late_work(olga, seconds) == (seconds or None)
        assert told(node) == seconds
        assert Node.objects.get().generation == before + 1, "the node would not learn of it"
    unchanged = Node.objects.get().generation
    olga.patch(f"/api/v1/pools/{Pool.objects.get().pk}", {"max_idle_seconds": 60}, format="json")
    assert Node.objects.get().generation == unchanged


def test_session_whose_work_was_late_for_too_long_names_the_pool_with_the_limit(
    cast: Cast, client_of: Clients, node: Node, allocation: Any
) -> None:
    session = session_of(allocation["id"])
    record_sessions(node_id=node.pk, reported=[session])
    reported = f"{TOO_LATE}60 s while others waited"
    closed = changed(session, state="closed", end_reason=reported)
    record_sessions(node_id=node.pk, reported=[closed])
    reason = f"{reported} (limit of pool default)"
    shown = body(client_of(cast.alice).get(f"/api/v1/sessions/{uuid.UUID(bytes=session.id)}"))
    assert shown["end_reason"] == reason
    (event,) = Event.objects.filter(kind="session.closed")
    assert event.message == f"The session of python ended: {reason}."


@pytest.mark.usefixtures("node")
def test_command_sets_the_limit(busbar: Busbar) -> None:
    for duration, shown in (("1m", 60), ("0", None)):
        done = busbar("pool", "set", "default", "--max-late", duration)
        assert done.status == 0, done
        assert Pool.objects.get().max_late_seconds == shown
