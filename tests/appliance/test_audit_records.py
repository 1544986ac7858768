"""Audit records of changes and of refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from appliance.accounts.models import User
from appliance.accounts.services import token_create
from appliance.api import refusals
from appliance.api.refusal_messages import from_messages, to_messages
from appliance.api.refusals import MAX_KEYS, Counted, Refusal
from appliance.audit import chain
from appliance.audit.models import AuditRecord, Outcome
from appliance.audit.refusal_records import write_refusals
from appliance.controller import audit_job
from appliance.db import origin, writer
from appliance.db.origin import Origin
from appliance.db.writer import Writer
from appliance.inventory.models import Node
from appliance.pools.models import Pool
from tests.appliance.commands_in_process import Busbar
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db
MINUTE = 1_900_000_000 // 60 * 60


@pytest.fixture(autouse=True)
def no_counts() -> Iterator[None]:
    refusals.drain()
    yield
    refusals.drain()


def refused(response: Any) -> list[AuditRecord]:
    """Return the records of the refusals in a response, as the appliance writes them."""
    refusals.note(response.refusals)
    audit_job.write_counts()
    return list(AuditRecord.objects.filter(outcome=Outcome.REFUSED))


def test_change_records_who_where_what_before_and_after(cast: Cast, client_of: Clients) -> None:
    client = client_of(cast.olga)
    pool = Pool.objects.create(name="lab")
    content = {"max_idle_seconds": 60}
    response = client.patch(f"/api/v1/pools/{pool.pk}", content, format="json")
    record = AuditRecord.objects.get(action="pools_partial_update")
    assert (record.actor, record.token_name, record.address) == ("olga", "test", "127.0.0.1")
    assert (record.object_kind, record.object_id, record.object_name) == ("pool", pool.pk, "lab")
    assert record.before == {"max_idle_seconds": None, "version": 1}
    assert record.after == {"max_idle_seconds": 60, "version": body(response)["version"]}
    assert str(record.request_id) == response["Busbar-Request"]


def test_creation_has_no_before_and_deletion_no_after(cast: Cast, client_of: Clients) -> None:
    client = client_of(cast.admin)
    group = body(client.post("/api/v1/groups", {"name": "students"}, format="json"))
    client.delete(f"/api/v1/groups/{group['id']}")
    created, deleted = AuditRecord.objects.filter(object_id=group["id"]).order_by("pk")
    assert (created.before, created.after) == ({}, {"name": "students"})
    assert (deleted.before, deleted.after) == ({"name": "students"}, {})


def test_forced_release_is_an_action_of_its_own(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node], busbar: Busbar
) -> None:
    add_node()
    made = client_of(cast.alice).post("/api/v1/allocations", {"percent": 5}, format="json")
    done = busbar("allocation", "release", "--force", "--yes", body(made)["id"])
    assert done.status == 0, done
    record = AuditRecord.objects.filter(object_id=body(made)["id"]).latest("pk")
    assert (record.action, record.actor) == ("allocations_force_release_create", "admin")
    assert record.after == {"freed_partitions": 1}


def test_secrets_of_accounts_and_tokens_are_not_recorded(cast: Cast, client_of: Clients) -> None:
    client = client_of(cast.admin)
    made = body(client.post("/api/v1/users", {"username": "newcomer"}, format="json"))
    token = body(client.post("/api/v1/tokens", {"name": "ci"}, format="json"))
    client.post(f"/api/v1/users/{made['id']}/reset-password")
    texts = str(list(AuditRecord.objects.values()))
    user = User.objects.get(username="newcomer")
    for secret in (made["one_time_password"], token["token"].split(".")[1], user.password):
        assert secret not in texts


def test_dry_run_and_failed_change_leave_no_record_of_success(
    cast: Cast, client_of: Clients
) -> None:
    client = client_of(cast.olga)
    client.post("/api/v1/pools?dry_run=true", {"name": "new"}, format="json")
    client.post("/api/v1/pools", {"name": "default"}, format="json")
    assert not AuditRecord.objects.filter(action="pools_create").exists()


def test_change_costs_one_insert_and_a_read_nothing(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    add_node()
    alice = client_of(cast.alice)
    alice.get("/api/v1/allocations")
    with CaptureQueriesContext(connection) as captured:
        alice.post("/api/v1/allocations", {"percent": 5}, format="json")
    audit = [q["sql"] for q in captured if "audit" in q["sql"]]
    assert len(audit) == 1 and audit[0].startswith("INSERT")
    with CaptureQueriesContext(connection) as captured:
        alice.get("/api/v1/allocations")
    assert not [q["sql"] for q in captured if "audit" in q["sql"]]


@pytest.mark.django_db(transaction=True)
def test_writer_thread_has_the_origin_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Writer()
    monkeypatch.setattr(writer, "_writer", one)
    seen: list[tuple[Origin | None, bool]] = []

    @writer.write_transaction
    def change() -> None:
        seen.append((origin.current(), threading.current_thread().name == "writer"))

    alice = Origin(actor="alice")
    try:
        with origin.scope(alice):
            change()
        change()
    finally:
        one.stop()
    assert seen == [(alice, True), (None, True)]


def test_request_leaves_no_origin_behind(cast: Cast, client_of: Clients) -> None:
    client_of(cast.olga).post("/api/v1/sites", {"name": "hall"}, format="json")
    assert origin.current() is None


def test_failed_login_is_recorded_with_the_name_it_tried(client_of: Clients) -> None:
    content = {"username": "mallory\0", "password": "guess"}
    response = client_of(None).post("/api/v1/login", content, format="json")
    (record,) = refused(response)
    assert record.actor.startswith("mallory") and "guess" not in str(vars(record))
    assert (record.action, record.address) == ("login_create", "127.0.0.1")


def test_denied_read_is_recorded_with_its_object(cast: Cast, client_of: Clients) -> None:
    row, _ = token_create(user=cast.alice, name="t")
    response = client_of(cast.charlie).get(f"/api/v1/tokens/{row.pk}")
    (record,) = refused(response)
    assert (record.actor, record.code, record.object_kind) == ("charlie", "not_found", "token")
    assert record.object_id == row.pk


def test_refused_change_is_recorded_with_its_code(cast: Cast, client_of: Clients) -> None:
    response = client_of(cast.olga).post("/api/v1/pools", {"name": "default"}, format="json")
    (record,) = refused(response)
    assert (record.actor, record.code, record.action) == ("olga", "conflict", "pools_create")
    assert str(record.request_id) == response["Busbar-Request"]


@pytest.mark.parametrize("atomic", [False, True])
def test_refused_operation_of_a_bulk_request_is_recorded(
    cast: Cast, client_of: Clients, atomic: bool
) -> None:
    operation = {"method": "DELETE", "path": f"pools/{Pool.objects.get(name='default').pk}"}
    content = {"operations": [operation], "atomic": atomic}
    response = client_of(cast.alice).post("/api/v1/bulk", content, format="json")
    records = {r.action: r.code for r in refused(response)}
    assert records["pools_destroy"] == "denied"


def test_invalid_token_is_recorded_and_a_request_without_one_is_not(client_of: Clients) -> None:
    client = client_of(None)
    assert refused(client.get("/api/v1/nodes")) == []
    client.credentials(HTTP_AUTHORIZATION="Bearer bb_guess")
    (record,) = refused(client.get("/api/v1/nodes"))
    assert record.code == "unauthenticated" and record.actor == ""


def counted(count: int = 1, minute: int = MINUTE, **changes: str) -> Counted:
    first = Refusal(actor="eve", address="10.0.0.1", code="denied")
    return Counted(replace(first, **changes), minute, count)


def test_repeats_within_a_minute_are_counted_in_one_record() -> None:
    for minute in (MINUTE, MINUTE, MINUTE + 60):
        refusals.add(counted(minute=minute) for _ in range(5))
        audit_job.write_counts()
    found = AuditRecord.objects.order_by("created_at").values_list("count", flat=True)
    assert list(found) == [10, 5]


@pytest.mark.parametrize("other", [{"actor": "bob"}, {"address": "::1"}, {"code": "not_found"}])
def test_other_actor_address_or_code_has_a_record_of_its_own(other: dict[str, str]) -> None:
    known = counted()
    write_refusals([known, replace(known, refusal=replace(known.refusal, **other))])
    assert AuditRecord.objects.count() == 2


def test_refusal_is_sealed_when_its_minute_is_over() -> None:
    now = int(timezone.now().timestamp()) // 60 * 60
    write_refusals([counted(minute=now), counted(minute=now - 120)])
    chain.seal_batch()
    open_one, sealed = AuditRecord.objects.order_by("-created_at")
    assert open_one.sequence is None and sealed.sequence == 1
    write_refusals([counted(minute=now - 120)])
    assert AuditRecord.objects.count() == 3, "a sealed record does not change"
    chain.seal_batch()
    assert chain.verify(0, "", 100).problem is None


def test_flood_of_refusals_takes_bounded_memory() -> None:
    refusals.add(counted(address=f"10.{n >> 8}.{n & 255}.1") for n in range(MAX_KEYS + 500))
    found = refusals.drain()
    assert len(found) == MAX_KEYS + 1 and sum(one.count for one in found) == MAX_KEYS + 500


def test_counts_survive_the_way_to_the_controller() -> None:
    counts = [counted(3, object_id="x", action="pools_create"), counted(actor="bob")]
    assert list(from_messages(to_messages(counts))) == counts
