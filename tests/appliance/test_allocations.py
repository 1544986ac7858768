"""Allocations over REST: states, leases, sessions, tickets."""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from django.conf import settings
from django.utils import timezone

from appliance.accounts import roles
from appliance.accounts.models import Project, User
from appliance.accounts.projects import project_update
from appliance.activity.models import Event
from appliance.allocations import eviction, leases, services, session_reports
from appliance.allocations.models import Allocation, Partition, Session
from appliance.allocations.tickets import signing_key
from appliance.fleet.desired_state import build_desired_state
from appliance.inventory.models import Node
from appliance.telemetry import reachability
from nodes.protocol import fleet_pb2
from tests.appliance.conftest import GIB, Cast, applied, body

URL = "/api/v1/allocations"
Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]


def test_allocation_becomes_active_when_its_node_has_applied_the_grant(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    created = alice.post(URL, {"percent": 25}, format="json")
    assert created.status_code == 202
    allocation = body(created)
    assert (
        allocation["state"] == "preparing"
        and allocation["partitions"][0]["memory_bytes"] == 2 * GIB
    )
    grants = build_desired_state(node.pk).grants
    assert [uuid.UUID(bytes=g.allocation_id) for g in grants] == [uuid.UUID(allocation["id"])]
    applied(node)
    assert body(alice.get(f"{URL}/{allocation['id']}"))["state"] == "active"


def test_report_of_an_older_generation_does_not_activate(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    before = node.generation
    allocation = body(client_of(cast.alice).post(URL, {"percent": 25}, format="json"))
    services.record_applied_generation(node_id=node.pk, generation=before)
    assert Allocation.objects.get(pk=allocation["id"]).state == "preparing"


def test_queued_request_has_a_reason_and_starts_after_a_release(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    held = [body(alice.post(URL, {"percent": p}, format="json")) for p in (15, 35, 20, 30)]
    fifth = body(alice.post(URL, {"percent": 10}, format="json"))
    assert (
        fifth["state"] == "queued"
        and "10 %" in fifth["waiting_reason"]
        and "0 %" in fifth["waiting_reason"]
    )
    applied(node)
    assert alice.delete(f"{URL}/{held[0]['id']}").status_code == 202
    assert body(alice.get(f"{URL}/{held[0]['id']}"))["state"] == "releasing"
    assert body(alice.get(f"{URL}/{fifth['id']}"))["state"] == "queued", (
        "the partition was granted again before its node confirmed the release"
    )
    applied(node)
    assert body(alice.get(f"{URL}/{held[0]['id']}"))["state"] == "released"
    assert body(alice.get(f"{URL}/{fifth['id']}"))["state"] == "preparing"


def test_release_increments_the_fence_and_revokes_the_grant(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    allocation = body(alice.post(URL, {}, format="json"))
    applied(node)
    fence = Allocation.objects.get(pk=allocation["id"]).fence_counter
    alice.delete(f"{URL}/{allocation['id']}")
    assert Allocation.objects.get(pk=allocation["id"]).fence_counter == fence + 1
    assert not build_desired_state(node.pk).grants


def test_unreachable_node_keeps_partitions_until_force_release(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    held = body(alice.post(URL, {"percent": 50}, format="json"))
    applied(node)
    reachability.forget_node(node.pk)
    queued = body(alice.post(URL, {"percent": 10}, format="json"))
    assert queued["state"] == "queued" and "unreachable" in queued["waiting_reason"]
    alice.delete(f"{URL}/{held['id']}")
    assert Partition.objects.filter(allocation=held["id"]).exists(), (
        "freed without confirmation by the node"
    )
    assert client_of(cast.olga).post(f"{URL}/{held['id']}/force-release").status_code == 403
    assert (
        body(client_of(cast.admin).post(f"{URL}/{held['id']}/force-release"))["state"] == "released"
    )
    assert Event.objects.filter(object_id=held["id"], actor="admin").exists()


def test_allocation_with_expired_lease_is_released(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node()
    allocation = body(client_of(cast.alice).post(URL, {}, format="json"))
    applied(node)
    eviction.evict_expired()
    assert Allocation.objects.get(pk=allocation["id"]).state == "active"
    monkeypatch.setattr(leases, "seconds_since_renewal", lambda _: 31.0)
    eviction.evict_expired()
    assert Allocation.objects.get(pk=allocation["id"]).state == "releasing"


def test_open_session_renews_the_lease(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node()
    allocation = body(client_of(cast.alice).post(URL, {}, format="json"))
    applied(node)
    session_reports.record_sessions(node_id=node.pk, reported=[session_of(allocation["id"])])
    monkeypatch.setattr(leases, "seconds_since_renewal", lambda _: 31.0)
    eviction.evict_expired()
    assert Allocation.objects.get(pk=allocation["id"]).state == "active"
    session_reports.record_sessions(node_id=node.pk, reported=[])
    assert Session.objects.get().state == "closed"


def test_lifetime_holds_an_allocation_without_a_client(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node()
    request = {"hold": "lifetime", "lifetime_seconds": 3600}
    allocation = body(client_of(cast.alice).post(URL, request, format="json"))
    applied(node)
    monkeypatch.setattr(leases, "seconds_since_renewal", lambda _: 31.0)
    eviction.evict_expired()
    row = Allocation.objects.get(pk=allocation["id"])
    assert row.state == "active"
    row.active_at = timezone.now() - timedelta(seconds=3601)
    row.save(update_fields=["active_at"])
    eviction.evict_expired()
    row.refresh_from_db()
    assert (row.state, row.end_reason) == ("releasing", "lifetime of 3600 s exceeded")


def test_hold_by_lifetime_needs_an_end(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    add_node()
    refused = client_of(cast.alice).post(URL, {"hold": "lifetime"}, format="json")
    assert refused.status_code == 400
    assert "set lifetime_seconds" in body(refused)["detail"]


def test_sessions_alone_hold_an_active_allocation_if_requested(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    allocation = body(alice.post(URL, {"hold": "session"}, format="json"))
    applied(node)
    reported = [session_of(allocation["id"])]
    session_reports.record_sessions(node_id=node.pk, reported=reported)
    clock = 100.0
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: clock))
    eviction.evict_expired()
    clock = 200.0
    eviction.evict_expired()
    assert Allocation.objects.get(pk=allocation["id"]).state == "active"
    session_reports.record_sessions(node_id=node.pk, reported=[])
    clock = 300.0
    assert alice.post(f"{URL}/{allocation['id']}/heartbeat").status_code == 200
    eviction.evict_expired()
    row = Allocation.objects.get(pk=allocation["id"])
    assert (row.state, row.end_reason) == ("releasing", "no session for 25 s")


def session_of(allocation_id: str, **changes: Any) -> fleet_pb2.Session:
    values: dict[str, Any] = {
        "id": uuid.uuid4().bytes,
        "allocation_id": uuid.UUID(allocation_id).bytes,
        "state": "running",
        "pid": 1,
        "client_pid": 2,
        "client_address": "127.0.0.1:1",
        "program": "python",
        "opened_seconds": 1,
    }
    return fleet_pb2.Session(**(values | changes))


def changed(session: fleet_pb2.Session, **changes: Any) -> fleet_pb2.Session:
    """Return a copy of a session with other values of some fields."""
    return fleet_pb2.Session(**({f.name: v for f, v in session.ListFields()} | changes))


def test_session_lists_refused_calls(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node = add_node()
    alice = client_of(cast.alice)
    allocation = body(alice.post(URL, {}, format="json"))
    applied(node)
    first = session_of(allocation["id"], refused_calls=("cuParamSetTexRef",))
    session_reports.record_sessions(node_id=node.pk, reported=[first])
    session_reports.record_sessions(
        node_id=node.pk,
        reported=[changed(first, state="closed", refused_calls=("cuParamSetTexRef", "cuGLInit"))],
    )
    shown = body(alice.get(f"/api/v1/sessions/{uuid.UUID(bytes=first.id)}"))
    assert shown["refused_calls"] == ["cuParamSetTexRef", "cuGLInit"] and shown["state"] == "closed"
    messages = [
        e.message for e in Event.objects.filter(kind="session.refused_calls").order_by("pk")
    ]
    assert messages == [
        "python called unsupported functions: cuParamSetTexRef.",
        "python called unsupported functions: cuGLInit.",
    ]


def test_sessions_of_allocations_on_other_nodes_are_ignored(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    stranger = add_node("stranger", gpus=0)
    allocation = body(client_of(cast.alice).post(URL, {}, format="json"))
    applied(node)
    session_reports.record_sessions(node_id=stranger.pk, reported=[session_of(allocation["id"])])
    assert not Session.objects.exists()
    mine = session_of(allocation["id"])
    session_reports.record_sessions(node_id=node.pk, reported=[mine])
    session_reports.record_sessions(
        node_id=stranger.pk,
        reported=[session_of(allocation["id"], id=mine.id, state="closed")],
    )
    assert Session.objects.get().state == "running"


def test_repeated_request_with_idempotency_key_allocates_once(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    alice = client_of(cast.alice)
    first = alice.post(URL, {"percent": 10}, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    again = alice.post(URL, {"percent": 10}, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    assert body(first) == body(again) and Allocation.objects.count() == 1
    other = alice.post(URL, {"percent": 11}, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    assert other.status_code == 422 and body(other)["code"] == "idempotency_mismatch"


def test_repeated_request_without_a_project_finds_its_response_after_a_second_project_was_joined(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    user = User.objects.create(username="una")
    for project in ("physics", "chemistry"):
        Project.objects.create(name=project)
        roles.bind(actor=cast.admin, user="una", role="user", project=project)
        answer = client_of(user).post(URL, {}, format="json", HTTP_IDEMPOTENCY_KEY="k1")
        assert answer.status_code == 202 and body(answer)["project"] == "physics"


@pytest.mark.parametrize("request_body", [{}, {"project": "physics"}], ids=["unnamed", "named"])
def test_repeated_request_finds_its_response_after_its_project_was_renamed(
    cast: Cast, client_of: Clients, add_node: AddNode, request_body: dict[str, str]
) -> None:
    add_node()
    project, user = Project.objects.create(name="physics"), User.objects.create(username="una")
    roles.bind(actor=cast.admin, user="una", role="user", project="physics")
    client = client_of(user)
    first = client.post(URL, request_body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    project_update(project_id=project.pk, values={"name": "optics"}, actor=cast.admin)
    again = client.post(URL, request_body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    assert (again.status_code, body(again)) == (202, body(first))


def test_release_with_stale_version_is_rejected(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    allocation = body(alice.post(URL, {}, format="json"))
    applied(node)
    stale = alice.delete(f"{URL}/{allocation['id']}", HTTP_IF_MATCH=f'"{allocation["version"]}"')
    assert stale.status_code == 412


def test_ticket_is_signed_for_key_node_and_fence(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    allocation = body(alice.post(URL, {"percent": 25}, format="json"))
    public = X25519PrivateKey.generate().public_key().public_bytes_raw()
    wanted = {"client_public_key": base64.b64encode(public).decode()}
    early = alice.post(f"{URL}/{allocation['id']}/tickets", wanted, format="json")
    assert early.status_code == 409 and body(early)["code"] == "not_active"
    applied(node)
    answer = body(alice.post(f"{URL}/{allocation['id']}/tickets", wanted, format="json"))
    raw = base64.b64decode(answer["tickets"][0]["ticket"])
    Ed25519PublicKey.from_public_bytes(signing_key().public).verify(raw[-64:], raw[:-64])
    magic, count, _, allocation_id, node_id, issued, expires, epoch, counter, key = struct.unpack(
        "<4sI8s16s16sqqQQ32s", raw[:112]
    )
    assert (magic, count, node_id, key, expires - issued) == (
        b"BBT1",
        1,
        node.pk.bytes,
        public,
        300,
    )
    assert (allocation_id, epoch, counter) == (uuid.UUID(allocation["id"]).bytes, 1, 1)
    for bad in ("", "!!!", base64.b64encode(b"short").decode()):
        assert (
            alice.post(
                f"{URL}/{allocation['id']}/tickets", {"client_public_key": bad}, format="json"
            ).status_code
            == 400
        )


def test_only_the_owner_gets_tickets(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node = add_node()
    allocation = body(client_of(cast.alice).post(URL, {}, format="json"))
    applied(node)
    key = {"client_public_key": base64.b64encode(bytes(32)).decode()}
    for person, status in (
        (cast.bob, 403),
        (cast.charlie, 404),
        (cast.olga, 403),
        (cast.admin, 403),
        (cast.vera, 403),
    ):
        assert (
            client_of(person)
            .post(f"{URL}/{allocation['id']}/tickets", key, format="json")
            .status_code
            == status
        ), person


def test_uncommitted_allocation_is_not_released_as_abandoned(
    cast: Cast, add_node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick between request and commit finds no lease yet, because the commit renews it."""
    add_node()
    allocation = services.create_allocation(
        owner=cast.alice, project_name="default", pool_name="default", percent=25
    )
    leases.forget_lease(allocation.pk)
    monkeypatch.setattr(settings.ENVIRONMENT, "hold_seconds", 0.0)
    eviction.evict_expired()
    allocation.refresh_from_db()
    assert allocation.state == "preparing"


def test_lease_is_forgotten_with_the_request_and_a_late_heartbeat_makes_none(
    cast: Cast, client_of: Clients, django_capture_on_commit_callbacks: Any
) -> None:
    alice = client_of(cast.alice)
    with django_capture_on_commit_callbacks(execute=True):
        made = body(alice.post(URL, {"percent": 25, "allow_pending": True}, format="json"))
    assert uuid.UUID(made["id"]) in leases._renewed_at
    with django_capture_on_commit_callbacks(execute=True):
        alice.delete(f"{URL}/{made['id']}")
    assert body(alice.post(f"{URL}/{made['id']}/heartbeat"))["state"] == "released"
    assert uuid.UUID(made["id"]) not in leases._renewed_at


@pytest.mark.parametrize("share", [{"percent": 25}, {"memory_bytes": 1 << 30}])
def test_exclusive_allocation_ignores_a_part_that_older_clients_send(
    cast: Cast, client_of: Clients, add_node: AddNode, share: dict[str, int]
) -> None:
    """Kernels of Jupyter that were installed with both options send both."""
    add_node()
    made = client_of(cast.alice).post(URL, {"compute_mode": "exclusive"} | share, format="json")
    assert made.status_code == 202
    assert (body(made)["percent"], body(made)["memory_bytes"]) == (100, 0)
