"""Changes of the compute mode of active allocations over REST, with the reports of their nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.models import Event, Task
from appliance.allocations import eviction
from appliance.allocations.index import index
from appliance.allocations.models import Allocation, Session
from appliance.audit.models import AuditRecord
from appliance.fleet.desired_state import build_desired_state
from appliance.inventory.models import Node
from appliance.pools.models import Quota
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.test_resizing import URL, Client, kinds, report, taken

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]


@pytest.fixture
def alice(cast: Cast, client_of: Clients, add_node: AddNode) -> Client:
    return Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))


def modes(alice: Client, pk: str) -> tuple[str, str, str]:
    """Return the requested mode, the granted one, and that which the node is told."""
    allocation = alice.read(pk)
    grants = {UUID(bytes=g.allocation_id): g for g in build_desired_state(alice.node.pk).grants}
    told = grants[UUID(pk)].compute_mode
    return allocation["compute_mode"], allocation["granted_compute_mode"], told


@pytest.mark.parametrize("mode", ["capped", "guaranteed"])
def test_mode_of_the_same_size_is_granted_at_once(alice: Client, mode: str) -> None:
    pk, _ = alice.allocate(percent=40), alice.allocate(percent=60)
    before = Node.objects.get().generation
    changed = alice.resize(pk, compute_mode=mode)
    assert changed["resize"]["state"] == "applying" and modes(alice, pk) == (mode,) * 3
    assert alice.granted(pk) == (40, 4 * GIB) and taken() == (100, 10 * GIB)
    assert Node.objects.get().generation > before, "the node would not learn of the mode"
    report(alice.node)
    assert alice.read(pk)["resize"] is None
    assert sorted(kinds(pk)) == ["resize_finished", "resize_requested", "resized"]
    assert Task.objects.get(kind="allocation.resize").state == "succeeded"
    asked = Event.objects.get(object_id=pk, kind="allocation.resize_requested").message
    assert f"asked for 1 × 40 % ({mode}) instead of 1 × 40 % (shared)." in asked


def test_whole_gpu_waits_with_its_old_mode_until_there_is_room(alice: Client) -> None:
    pk = alice.allocate(percent=30, compute_mode="capped")
    other = alice.allocate(percent=60, lifetime_seconds=3600)
    waits = alice.resize(pk, compute_mode="exclusive")
    assert waits["resize"]["state"] == "queued" and waits["percent"] == 100
    assert "adds 70 % and 7168 MiB" in waits["waiting_reason"]
    assert modes(alice, pk) == ("exclusive", "capped", "capped")
    assert alice.granted(pk) == (30, 3 * GIB)
    explained = body(alice.client.get(f"{URL}/{pk}/explanation"))
    assert explained["rule"] == "capacity" and explained["expected_start_at"] is not None
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    assert modes(alice, pk) == ("exclusive",) * 3
    assert alice.granted(pk) == (100, 10 * GIB) and taken() == (100, 10 * GIB)


def test_scheduler_knows_the_room_that_a_mode_takes_and_leaves(alice: Client) -> None:
    """The index is not read again from the database for this."""
    pk = alice.allocate(percent=30)
    alice.resize(pk, compute_mode="exclusive")
    report(alice.node)
    waiting = body(alice.client.post(URL, {"percent": 10}, format="json"))
    assert waiting["state"] == "queued"
    alice.resize(pk, compute_mode="shared", percent=50)
    report(alice.node)
    assert alice.read(waiting["id"])["state"] == "preparing" and taken() == (60, 6 * GIB)
    index.verify_sample()
    assert index.mismatches == 0


def test_whole_gpu_becomes_a_share_of_the_given_size(alice: Client) -> None:
    pk = alice.allocate(compute_mode="exclusive")
    refused = alice.resize(pk, 409, percent=50)
    assert refused["code"] == "conflict" and "another compute_mode" in refused["detail"]
    assert alice.resize(pk, compute_mode="exclusive", percent=50)["resize"] is None
    alice.resize(pk, compute_mode="guaranteed")
    assert alice.granted(pk) == (100, 10 * GIB) and modes(alice, pk) == ("guaranteed",) * 3
    alice.resize(pk, percent=50)
    assert alice.granted(pk) == (50, 5 * GIB)


def test_mode_and_size_change_together_or_not_at_all(alice: Client) -> None:
    pk, other = alice.allocate(percent=30), alice.allocate(percent=60)
    waits = alice.resize(pk, compute_mode="guaranteed", percent=50)
    assert waits["resize"]["state"] == "queued"
    assert modes(alice, pk) == ("guaranteed", "shared", "shared")
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    assert modes(alice, pk) == ("guaranteed",) * 3 and alice.granted(pk) == (50, 5 * GIB)
    alice.resize(pk, compute_mode="shared", percent=20, memory_bytes=GIB)
    assert modes(alice, pk) == ("shared",) * 3 and alice.granted(pk) == (20, GIB)


def test_present_mode_and_size_withdraw_a_mode_that_waits(alice: Client) -> None:
    pk, other = alice.allocate(percent=30), alice.allocate(percent=60)
    alice.resize(pk, compute_mode="exclusive")
    back = alice.resize(pk, compute_mode="shared", percent=30)
    assert back["resize"] is None and back["waiting_reason"] == ""
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    assert modes(alice, pk) == ("shared",) * 3 and alice.granted(pk) == (30, 3 * GIB)


@pytest.mark.parametrize(
    ("asked", "stated", "granted"),
    [
        ({"percent": 30}, (30, 0), (30, 3 * GIB)),
        ({"memory_bytes": 3 * GIB + 1}, (0, 3 * GIB + (2 << 20)), (31, 3 * GIB + (2 << 20))),
        ({"percent": 20, "memory_bytes": GIB}, (20, GIB), (20, GIB)),
    ],
    ids=["percent", "memory", "both"],
)
@pytest.mark.parametrize("mode", ["shared", "capped"])
def test_mode_alone_withdraws_a_wait_for_the_whole_gpu(
    alice: Client,
    mode: str,
    asked: dict[str, int],
    stated: tuple[int, int],
    granted: tuple[int, int],
) -> None:
    pk, other = alice.allocate(**asked), alice.allocate(percent=60)
    alice.resize(pk, compute_mode="exclusive")
    back = alice.resize(pk, compute_mode=mode)
    assert (back["resize"] is None) == (mode == "shared") and back["waiting_reason"] == ""
    assert (back["percent"], back["memory_bytes"]) == stated
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    assert modes(alice, pk) == (mode,) * 3 and alice.granted(pk) == granted


def test_size_is_changed_from_the_present_one_while_a_wait_for_the_whole_gpu_ends(
    alice: Client,
) -> None:
    pk, _ = alice.allocate(percent=30), alice.allocate(percent=60)
    alice.resize(pk, compute_mode="exclusive")
    alice.resize(pk, compute_mode="shared", memory_bytes=GIB)
    assert alice.granted(pk) == (30, GIB)


def test_same_mode_changes_nothing(alice: Client) -> None:
    pk = alice.allocate(percent=30, compute_mode="capped")
    before, generation = alice.read(pk), Node.objects.get().generation
    records = AuditRecord.objects.filter(object_id=pk).count()
    assert alice.resize(pk, compute_mode="capped")["resize"] is None
    assert alice.read(pk) == before and kinds(pk) == []
    assert Node.objects.get().generation == generation
    assert AuditRecord.objects.filter(object_id=pk).count() == records
    alice.resize(pk, compute_mode="shared")
    again = alice.resize(pk, compute_mode="shared")
    assert again["version"] == alice.read(pk)["version"] and kinds(pk).count("resized") == 1


def test_unknown_mode_is_refused(alice: Client) -> None:
    pk = alice.allocate(percent=30)
    for mode in ("best", "", None, 1):
        refused = alice.resize(pk, 400, compute_mode=mode)
        assert "compute_mode" in str(refused["errors"])
    assert "mode" in str(alice.resize(pk, 400, mode="capped")["errors"])
    assert modes(alice, pk) == ("shared",) * 3


def test_allocation_that_waits_or_ends_keeps_its_mode(alice: Client) -> None:
    pk = alice.allocate(percent=60)
    waiting = body(alice.client.post(URL, {"percent": 60}, format="json"))["id"]
    assert "is queued" in alice.resize(waiting, 409, compute_mode="capped")["detail"]
    eviction.evict(allocation_id=UUID(pk), reason="maintenance", grace_seconds=60)
    assert "maintenance" in alice.resize(pk, 409, compute_mode="capped")["detail"]
    alice.client.delete(f"{URL}/{pk}")
    assert "is releasing" in alice.resize(pk, 409, compute_mode="capped")["detail"]
    assert set(Allocation.objects.values_list("compute_mode", "granted_compute_mode")) == {
        ("shared", "shared")
    }


def test_mode_that_waits_ends_with_its_allocation(alice: Client) -> None:
    pk, _ = alice.allocate(percent=30), alice.allocate(percent=60)
    alice.resize(pk, compute_mode="exclusive")
    alice.client.delete(f"{URL}/{pk}")
    report(alice.node)
    released = alice.read(pk)
    assert released["state"] == "released" and released["resize"] is None
    assert not Task.objects.filter(kind="allocation.resize", state="running").exists()


def test_mode_of_another_project_is_not_found(
    cast: Cast, client_of: Clients, alice: Client
) -> None:
    pk = alice.allocate(percent=30)
    for user, status in ((cast.charlie, 404), (cast.bob, 403), (cast.vera, 403), (cast.olga, 202)):
        Client(client_of(user), alice.node).resize(pk, status, compute_mode="capped")
        expected = "capped" if status == 202 else "shared"
        assert Allocation.objects.get(pk=pk).compute_mode == expected


def test_quota_counts_the_whole_gpu(alice: Client) -> None:
    pk = alice.allocate(percent=30)
    project = Allocation.objects.get(pk=pk).project_id
    quota = Quota.objects.create(subject_kind="project", subject_id=project, limit_percent=60)
    refused = alice.resize(pk, 409, compute_mode="exclusive")
    assert refused["code"] == "unsatisfiable" and "limit of project" in refused["detail"]
    assert modes(alice, pk) == ("shared",) * 3 and alice.read(pk)["percent"] == 30
    quota.limit_percent, quota.quota_percent, quota.borrows = None, 60, False
    quota.save()
    refused = alice.resize(pk, 409, compute_mode="exclusive")
    assert refused["code"] == "unsatisfiable" and "quota" in refused["detail"]


def test_mode_waits_for_a_limit_that_others_use(alice: Client) -> None:
    other, pk = alice.allocate(percent=20), alice.allocate(percent=30)
    project = Allocation.objects.get(pk=pk).project_id
    Quota.objects.create(subject_kind="project", subject_id=project, limit_percent=100)
    assert alice.resize(pk, compute_mode="exclusive")["waiting_rule"] in ("capacity", "limit")
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    assert modes(alice, pk) == ("exclusive",) * 3


def test_whole_gpus_are_claimed_from_those_who_borrow(
    cast: Cast, client_of: Clients, alice: Client
) -> None:
    charlie = Client(client_of(cast.charlie), alice.node)
    pk = alice.allocate(percent=30)
    project = Allocation.objects.get(pk=pk).project_id
    Quota.objects.create(subject_kind="project", subject_id=project, quota_percent=100)
    borrowed = charlie.allocate(percent=70, project="elsewhere")
    assert alice.resize(pk, compute_mode="exclusive")["waiting_rule"] == "reclaim"
    Allocation.objects.filter(pk=borrowed).update(evict_at=timezone.now() - timedelta(seconds=1))
    eviction.evict_expired()
    report(alice.node)
    assert modes(alice, pk) == ("exclusive",) * 3


def test_version_dry_run_and_audit_of_a_mode(alice: Client) -> None:
    pk, _ = alice.allocate(percent=30), alice.allocate(percent=60)
    before, url = alice.read(pk), f"{URL}/{pk}"
    for mode, state in (("capped", "applying"), ("exclusive", "queued")):
        shown = alice.client.patch(url + "?dry_run=true", {"compute_mode": mode}, format="json")
        assert body(shown)["resize"]["state"] == state and body(shown)["compute_mode"] == mode
    assert alice.read(pk) == before
    for version, status in ((before["version"] + 7, 412), (before["version"], 202)):
        headers = {"If-Match": f'"{version}"'}
        sent = alice.client.patch(url, {"compute_mode": "capped"}, format="json", headers=headers)
        assert sent.status_code == status
    record = AuditRecord.objects.filter(object_id=pk).latest("pk")
    assert (record.before["compute_mode"], record.after["compute_mode"]) == ("shared", "capped")


def test_session_shows_the_mode_in_force(alice: Client) -> None:
    pk, _ = alice.allocate(percent=30, compute_mode="capped"), alice.allocate(percent=60)
    Session.objects.create(
        id=UUID(int=1),
        allocation_id=pk,
        node=alice.node,
        state="running",
        pid=1,
        client_pid=1,
        client_address="127.0.0.1",
        program="train",
        opened_at=timezone.now(),
    )
    alice.resize(pk, compute_mode="exclusive")
    (session,) = body(alice.client.get("/api/v1/sessions"))["items"]
    assert session["compute_mode"] == "capped"
