"""The life of an allocation, over REST."""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings

from appliance.accounts.models import User
from appliance.activity.models import Event
from appliance.allocations import holding, services, sessions
from appliance.allocations.models import Allocation, Partition, Session
from appliance.allocations.tickets import signing_key
from appliance.fleet.desired_state import desired_state
from appliance.inventory.models import Node
from appliance.telemetry import latest
from tests.appliance.conftest import GIB, Cast, applied, body

URL = "/api/v1/allocations"
Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]


def test_it_becomes_active_once_its_node_has_applied_it(
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
    grants = desired_state(node.pk).grants
    assert [uuid.UUID(bytes=g.allocation_id) for g in grants] == [uuid.UUID(allocation["id"])]
    applied(node)
    assert body(alice.get(f"{URL}/{allocation['id']}"))["state"] == "active"


def test_an_old_report_does_not_activate(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node = add_node()
    before = node.generation
    allocation = body(client_of(cast.alice).post(URL, {"percent": 25}, format="json"))
    services.generation_applied(node_id=node.pk, generation=before)
    assert Allocation.objects.get(pk=allocation["id"]).state == "preparing"


def test_a_fifth_request_waits_says_why_and_starts_when_one_is_released(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    held = [body(alice.post(URL, {"percent": p}, format="json")) for p in (15, 35, 20, 30)]
    fifth = body(alice.post(URL, {"percent": 10}, format="json"))
    assert (
        fifth["state"] == "waiting"
        and "10 %" in fifth["waiting_reason"]
        and "0 %" in fifth["waiting_reason"]
    )
    applied(node)
    assert alice.delete(f"{URL}/{held[0]['id']}").status_code == 202
    assert body(alice.get(f"{URL}/{held[0]['id']}"))["state"] == "releasing"
    assert body(alice.get(f"{URL}/{fifth['id']}"))["state"] == "waiting", (
        "the partition was given away before its node had let go"
    )
    applied(node)
    assert body(alice.get(f"{URL}/{held[0]['id']}"))["state"] == "released"
    assert body(alice.get(f"{URL}/{fifth['id']}"))["state"] == "preparing"


def test_releasing_raises_the_fence_and_takes_the_grant_away(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    allocation = body(alice.post(URL, {}, format="json"))
    applied(node)
    fence = Allocation.objects.get(pk=allocation["id"]).fence_counter
    alice.delete(f"{URL}/{allocation['id']}")
    assert Allocation.objects.get(pk=allocation["id"]).fence_counter == fence + 1
    assert not desired_state(node.pk).grants


def test_an_unreachable_node_gets_nothing_and_keeps_what_it_has(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    held = body(alice.post(URL, {"percent": 50}, format="json"))
    applied(node)
    latest.forget(node.pk)
    waiting = body(alice.post(URL, {"percent": 10}, format="json"))
    assert waiting["state"] == "waiting" and "unreachable" in waiting["waiting_reason"]
    alice.delete(f"{URL}/{held['id']}")
    assert Partition.objects.filter(allocation=held["id"]).exists(), "freed without the node's word"
    assert client_of(cast.olga).post(f"{URL}/{held['id']}/force-release").status_code == 403
    assert (
        body(client_of(cast.admin).post(f"{URL}/{held['id']}/force-release"))["state"] == "released"
    )
    assert Event.objects.filter(object_id=held["id"], actor="admin").exists()


def test_nobody_holding_it_releases_it(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node()
    allocation = body(client_of(cast.alice).post(URL, {}, format="json"))
    applied(node)
    services.end_what_is_due()
    assert Allocation.objects.get(pk=allocation["id"]).state == "active"
    monkeypatch.setattr(holding, "seconds_since_held", lambda _: 31.0)
    services.end_what_is_due()
    assert Allocation.objects.get(pk=allocation["id"]).state == "releasing"


def test_a_live_session_holds_it(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node()
    allocation = body(client_of(cast.alice).post(URL, {}, format="json"))
    applied(node)
    sessions.sessions_report(node_id=node.pk, reported=[session_of(allocation["id"])])
    monkeypatch.setattr(holding, "seconds_since_held", lambda _: 31.0)
    services.end_what_is_due()
    assert Allocation.objects.get(pk=allocation["id"]).state == "active"
    sessions.sessions_report(node_id=node.pk, reported=[])
    assert Session.objects.get().state == "closed"


def session_of(allocation_id: str, **changes: Any) -> sessions.ReportedSession:
    values: dict[str, Any] = {
        "session_id": uuid.uuid4(), "allocation_id": uuid.UUID(allocation_id), "state": "running", "pid": 1, "client_pid": 2, "client_address": "127.0.0.1:1",
        "program": "python", "isolation": {}, "memory_bytes": 0, "launches": 0, "bytes_in": 0, "bytes_out": 0, "end_reason": "", "opened_seconds": 1,
    }  # fmt: skip
    return sessions.ReportedSession(**(values | changes))


def test_calls_that_are_not_there_are_shown_with_the_session(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    alice = client_of(cast.alice)
    allocation = body(alice.post(URL, {}, format="json"))
    applied(node)
    first = session_of(allocation["id"], refused_calls=("cuParamSetTexRef",))
    sessions.sessions_report(node_id=node.pk, reported=[first])
    sessions.sessions_report(
        node_id=node.pk,
        reported=[replace(first, state="closed", refused_calls=("cuParamSetTexRef", "cuGLInit"))],
    )
    shown = body(alice.get(f"/api/v1/sessions/{first.session_id}"))
    assert shown["refused_calls"] == ["cuParamSetTexRef", "cuGLInit"] and shown["state"] == "closed"
    messages = [
        e.message for e in Event.objects.filter(kind="session.refused_calls").order_by("pk")
    ]
    assert messages == [
        "python called what is not supported yet: cuParamSetTexRef.",
        "python called what is not supported yet: cuGLInit.",
    ]


def test_a_node_cannot_report_sessions_of_another_nodes_allocation(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    stranger = add_node("stranger", gpus=0)
    allocation = body(client_of(cast.alice).post(URL, {}, format="json"))
    applied(node)
    sessions.sessions_report(node_id=stranger.pk, reported=[session_of(allocation["id"])])
    assert not Session.objects.exists()
    mine = session_of(allocation["id"])
    sessions.sessions_report(node_id=node.pk, reported=[mine])
    sessions.sessions_report(
        node_id=stranger.pk,
        reported=[session_of(allocation["id"], session_id=mine.session_id, state="closed")],
    )
    assert Session.objects.get().state == "running"


def test_a_repeated_request_allocates_once(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    alice = client_of(cast.alice)
    first = alice.post(URL, {"percent": 10}, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    again = alice.post(URL, {"percent": 10}, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    assert body(first) == body(again) and Allocation.objects.count() == 1
    other = alice.post(URL, {"percent": 11}, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    assert other.status_code == 422 and body(other)["code"] == "idempotency_mismatch"


def test_a_lost_update_is_refused(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node, alice = add_node(), client_of(cast.alice)
    allocation = body(alice.post(URL, {}, format="json"))
    applied(node)
    stale = alice.delete(f"{URL}/{allocation['id']}", HTTP_IF_MATCH=f'"{allocation["version"]}"')
    assert stale.status_code == 412


def test_a_ticket_is_signed_for_one_key_node_and_fence(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    allocation = body(alice.post(URL, {"percent": 25}, format="json"))
    public = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
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


def test_only_the_owner_opens_sessions(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
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


def test_what_was_made_in_the_same_commit_is_not_taken_for_abandoned(
    cast: Cast, add_node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tick may come between the request and its commit; only with that the holder is noted."""
    add_node()
    allocation = services.allocation_create(
        owner=cast.alice, project_name="default", wanted=services.Wanted("default", percent=25)
    )
    holding.forget(allocation.pk)
    monkeypatch.setattr(settings.ENVIRONMENT, "hold_seconds", 0.0)
    services.end_what_is_due()
    allocation.refresh_from_db()
    assert allocation.state == "preparing"
