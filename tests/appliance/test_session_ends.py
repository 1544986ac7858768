"""Why sessions end: their nodes report it, and the appliance knows who released an allocation."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.models import Event
from appliance.allocations import eviction, lost_access
from appliance.allocations.models import Allocation
from appliance.allocations.session_reports import record_sessions
from appliance.allocations.sessions import NOT_REPORTED
from appliance.inventory.models import Node
from nodes.protocol import fleet_pb2
from nodes.protocol.session_ends import RELEASED
from tests.appliance.conftest import Cast, applied, body
from tests.appliance.test_allocations import changed, session_of

Clients = Callable[[User | None], Any]
End = Callable[[Cast, Clients, str], None]
URL = "/api/v1/allocations"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def node(add_node: Callable[..., Node]) -> Node:
    return add_node()


@pytest.fixture
def running(cast: Cast, client_of: Clients, node: Node) -> fleet_pb2.Session:
    """A session of an active allocation of alice."""
    allocation = body(client_of(cast.alice).post(URL, {}, format="json"))
    applied(node)
    session = session_of(allocation["id"])
    record_sessions(node_id=node.pk, reported=[session])
    return session


def allocation_of(session: fleet_pb2.Session) -> uuid.UUID:
    return uuid.UUID(bytes=session.allocation_id)


def reason_of(session: fleet_pb2.Session, viewer: Any) -> str:
    shown = body(viewer.get(f"/api/v1/sessions/{uuid.UUID(bytes=session.id)}"))
    assert shown["state"] == "closed"
    return str(shown["end_reason"])


def release(user: str) -> End:
    def end(cast: Cast, client_of: Clients, allocation_id: str) -> None:
        client = client_of(getattr(cast, user))
        assert client.delete(f"{URL}/{allocation_id}").status_code == 202

    return end


def force_release(cast: Cast, client_of: Clients, allocation_id: str) -> None:
    response = client_of(cast.admin).post(f"{URL}/{allocation_id}/force-release")
    assert response.status_code == 200, body(response)


def expire(cast: Cast, client_of: Clients, allocation_id: str) -> None:
    started = timezone.now() - timedelta(seconds=3601)
    rows = Allocation.objects.filter(pk=allocation_id)
    rows.update(lifetime_seconds=3600, active_at=started)
    eviction.evict_expired()


def deactivate_owner(cast: Cast, client_of: Clients, allocation_id: str) -> None:
    cast.alice.is_active = False
    cast.alice.save()
    lost_access.evict_after_changes_of_identities()


ENDS: dict[str, End] = {
    "released by alice": release("alice"),
    "released by olga": release("olga"),
    "force-released by admin": force_release,
    "lifetime of 3600 s exceeded": expire,
    "alice is inactive": deactivate_owner,
}


@pytest.mark.parametrize("reported", [RELEASED, None])
@pytest.mark.parametrize("reason", ENDS)
def test_session_of_a_released_allocation_ends_with_its_reason(
    cast: Cast,
    client_of: Clients,
    node: Node,
    running: fleet_pb2.Session,
    reason: str,
    reported: str | None,
) -> None:
    """The node reports that it ended the session, or has forgotten the session."""
    ENDS[reason](cast, client_of, str(allocation_of(running)))
    ended = [changed(running, state="closed", end_reason=reported)] if reported else []
    record_sessions(node_id=node.pk, reported=ended)

    assert reason_of(running, client_of(cast.admin)) == reason
    (event,) = Event.objects.filter(kind="session.closed")
    assert event.message == f"The session of python ended: {reason}."


@pytest.mark.parametrize("reason", ["the client closed it", "the client sent a malformed record"])
def test_session_that_ended_by_itself_keeps_its_reason_after_the_release(
    cast: Cast, client_of: Clients, node: Node, running: fleet_pb2.Session, reason: str
) -> None:
    alice = client_of(cast.alice)
    alice.delete(f"{URL}/{allocation_of(running)}")
    closed = changed(running, state="closed", end_reason=reason)
    record_sessions(node_id=node.pk, reported=[closed])
    assert reason_of(running, alice) == reason


@pytest.mark.parametrize("reported", [RELEASED, NOT_REPORTED])
def test_session_of_an_active_allocation_ends_with_the_reported_reason(
    cast: Cast, client_of: Clients, node: Node, running: fleet_pb2.Session, reported: str
) -> None:
    """An announced end gives the allocation a reason long before its sessions end by it."""
    eviction.evict(allocation_id=allocation_of(running), reason="drain", grace_seconds=300)
    closed = [changed(running, state="closed", end_reason=reported)]
    record_sessions(node_id=node.pk, reported=closed if reported == RELEASED else [])
    assert reason_of(running, client_of(cast.alice)) == reported
