"""Resizes of active allocations over REST, with the reports of their nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.models import Event, Task
from appliance.allocations import eviction, scheduler
from appliance.allocations.allocation_views import read_state
from appliance.allocations.models import Allocation, AllocationState
from appliance.audit.models import AuditRecord
from appliance.fleet.desired_state import build_desired_state
from appliance.fleet.reports import record_applied
from appliance.inventory.models import Gpu, Node
from appliance.pools.models import Quota
from appliance.runtime import disk_space
from tests.appliance.conftest import GIB, Cast, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
URL = "/api/v1/allocations"
MIB = 1 << 20


def report(node: Node, over: Mapping[str, Sequence[int]] | None = None, **more: Any) -> None:
    """Report that a node has applied its newest generation, and who holds more than its size."""
    node.refresh_from_db()
    known = {UUID(pk): held for pk, held in (over or {}).items()}
    record_applied(node.pk, node.generation, over=known, **more)


class Client:
    """A REST client with active allocations on one node."""

    def __init__(self, client: Any, node: Node) -> None:
        self.client, self.node = client, node

    def allocate(self, **request: Any) -> str:
        created = self.client.post(URL, request, format="json")
        assert created.status_code == 202, created.content
        report(self.node)
        return str(body(created)["id"])

    def resize(self, pk: str, status: int = 202, **size: Any) -> dict[str, Any]:
        response = self.client.patch(f"{URL}/{pk}", size, format="json")
        assert response.status_code == status, response.content
        return dict(body(response))

    def read(self, pk: str) -> dict[str, Any]:
        return dict(body(self.client.get(f"{URL}/{pk}")))

    def granted(self, pk: str) -> tuple[int, int]:
        (partition,) = self.read(pk)["partitions"]
        return partition["compute_percent"], partition["memory_bytes"]


@pytest.fixture
def alice(cast: Cast, client_of: Clients, add_node: AddNode) -> Client:
    return Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))


def taken() -> tuple[int, int]:
    gpu = Gpu.objects.get()
    return gpu.taken_percent, gpu.taken_memory_bytes


def kinds(pk: str) -> list[str]:
    events = Event.objects.filter(object_id=pk, kind__startswith="allocation.resi")
    return [kind.removeprefix("allocation.") for kind in events.values_list("kind", flat=True)]


def test_allocation_grows_at_once_if_the_capacity_is_free(alice: Client) -> None:
    pk = alice.allocate(percent=20)
    before = Allocation.objects.get(pk=pk)
    grown = alice.resize(pk, percent=50)
    assert grown["resize"]["state"] == "applying" and grown["percent"] == 50
    assert alice.granted(pk) == (50, 5 * GIB) and taken() == (50, 5 * GIB)
    (grant,) = build_desired_state(alice.node.pk).grants
    assert grant.partitions[0].memory_bytes == 5 * GIB
    assert (grant.fence_epoch, grant.fence_counter) == (before.fence_epoch, before.fence_counter)
    assert read_state(UUID(pk)) == "resizing"
    report(alice.node)
    assert alice.read(pk)["resize"] is None and read_state(UUID(pk)) == "active"
    assert sorted(kinds(pk)) == ["resize_finished", "resize_requested", "resized"]
    assert Task.objects.get(kind="allocation.resize").state == "succeeded"


def test_omitted_value_stays(alice: Client) -> None:
    pk = alice.allocate(memory_bytes=2 * GIB)
    assert alice.granted(pk) == (20, 2 * GIB)
    alice.resize(pk, percent=50)
    assert alice.granted(pk) == (50, 2 * GIB)
    alice.resize(pk, memory_bytes=3 * GIB)
    assert alice.granted(pk) == (50, 3 * GIB)
    alice.resize(pk, percent=0)
    assert alice.granted(pk) == (30, 3 * GIB)
    refused = alice.resize(pk, 400, memory_bytes=0)
    assert "must not both be 0" in refused["detail"]
    alice.resize(pk, percent=10, memory_bytes=0)
    assert alice.granted(pk) == (10, GIB)


def test_shrinking_below_the_use_keeps_the_memory_until_it_is_freed(alice: Client) -> None:
    pk = alice.allocate(percent=60)
    shrunk = alice.resize(pk, percent=20)
    assert alice.granted(pk) == (20, 2 * GIB)
    assert shrunk["resize"]["state"] == "shrinking" and shrunk["resize"]["over_bytes"] == 4 * GIB
    assert shrunk["resize"]["reason"].startswith("0 of 4 GiB returned.")
    assert taken() == (20, 6 * GIB), "memory was given away before its node confirmed"
    waiting = alice.client.post(URL, {"percent": 80}, format="json")
    assert body(waiting)["state"] == "queued"
    report(alice.node, {pk: [5 * GIB]})
    resize = alice.read(pk)["resize"]
    assert (resize["over_bytes"], resize["returned_bytes"]) == (3 * GIB, GIB)
    assert resize["reason"].startswith("1 of 4 GiB returned.") and taken() == (20, 5 * GIB)
    report(alice.node, {pk: [2 * GIB + MIB]})
    assert alice.read(body(waiting)["id"])["state"] == "queued"
    report(alice.node, {})
    assert alice.read(pk)["resize"] is None
    assert alice.read(body(waiting)["id"])["state"] == "preparing"
    assert taken() == (100, 10 * GIB)


def test_returned_memory_is_that_of_the_last_shrink(alice: Client) -> None:
    pk = alice.allocate(percent=60)
    alice.resize(pk, percent=40)
    report(alice.node, {pk: [5 * GIB + 819 * MIB]})
    assert alice.read(pk)["resize"]["reason"].startswith("0.2 of 2 GiB returned.")
    alice.resize(pk, memory_bytes=6 * GIB - 512 * MIB)
    resize = alice.read(pk)["resize"]
    assert (resize["over_bytes"], resize["returned_bytes"]) == (307 * MIB, 0)
    report(alice.node, {pk: [6 * GIB - 512 * MIB + 107 * MIB]})
    assert alice.read(pk)["resize"]["reason"].startswith("200 of 307 MiB returned.")
    report(alice.node)
    assert alice.read(pk)["resize"] is None


def test_queued_growth_tells_nothing_of_a_shrink_that_has_ended(alice: Client) -> None:
    pk = alice.allocate(percent=60)
    alice.resize(pk, percent=40)
    report(alice.node)
    alice.allocate(percent=60)
    resize = alice.resize(pk, percent=70, memory_bytes=4 * GIB)["resize"]
    assert resize["state"] == "queued"
    assert (resize["over_bytes"], resize["returned_bytes"]) == (0, 0)


def test_queued_growth_tells_of_a_shrink_that_goes_on(alice: Client) -> None:
    pk = alice.allocate(percent=60)
    alice.allocate(percent=40)
    alice.resize(pk, percent=40)
    report(alice.node, {pk: [5 * GIB]})
    resize = alice.resize(pk, percent=80, memory_bytes=4 * GIB)["resize"]
    assert (resize["state"], resize["over_bytes"], resize["returned_bytes"]) == ("queued", GIB, GIB)


def test_returned_memory_counts_all_gpus(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node = add_node(gpus=2, memory_bytes=10 * GIB)
    alice = Client(client_of(cast.alice), node)
    pk = alice.allocate(percent=30, gpu_count=2)
    alice.resize(pk, percent=10)
    report(node, {pk: [0, 2 * GIB]})
    resize = alice.read(pk)["resize"]
    assert (resize["over_bytes"], resize["returned_bytes"]) == (GIB, 3 * GIB)
    assert resize["reason"].startswith("3 of 4 GiB returned.")


def test_report_never_adds_to_what_is_occupied(alice: Client) -> None:
    """A node that lies about its use affects nothing but its own memory."""
    pk = alice.allocate(percent=60)
    alice.resize(pk, percent=50)
    report(alice.node, {pk: [1 << 62]})
    assert taken() == (50, 6 * GIB)
    report(alice.node, {pk: [5 * GIB + MIB]})
    report(alice.node, {pk: [6 * GIB]})
    assert taken() == (50, 5 * GIB + MIB)


def test_report_of_an_older_generation_frees_nothing(alice: Client) -> None:
    pk = alice.allocate(percent=60)
    older = Node.objects.get().generation
    alice.resize(pk, percent=20)
    record_applied(alice.node.pk, older, over={})
    assert taken() == (20, 6 * GIB)


def test_compute_that_is_given_back_is_granted_with_the_same_generation(alice: Client) -> None:
    """The seed's scenario: 45/55 becomes 45/35/20."""
    kept, shrunk = alice.allocate(percent=45), alice.allocate(percent=55)
    before = alice.read(kept)
    alice.resize(shrunk, percent=35)
    third = body(alice.client.post(URL, {"percent": 20}, format="json"))
    assert third["state"] == "queued" and "20 % with 0 MiB" in third["waiting_reason"]
    report(alice.node)
    assert alice.read(third["id"])["state"] == "preparing"
    report(alice.node)
    grants = build_desired_state(alice.node.pk).grants
    percents = {str(UUID(bytes=g.allocation_id)): g.partitions[0].compute_percent for g in grants}
    assert percents == {kept: 45, shrunk: 35, third["id"]: 20}
    after = alice.read(kept)
    assert after == before, "a neighbour changed"


def test_growth_waits_with_a_reason_until_the_capacity_is_free(alice: Client) -> None:
    small, large = alice.allocate(percent=30), alice.allocate(percent=60)
    grown = alice.resize(small, percent=50)
    assert grown["resize"]["state"] == "queued" and grown["percent"] == 50
    assert alice.granted(small) == (30, 3 * GIB), "the granted size"
    assert grown["waiting_rule"] == "capacity"
    assert "adds 20 % and 2048 MiB" in grown["resize"]["reason"]
    explained = body(alice.client.get(f"{URL}/{small}/explanation"))
    assert explained["rule"] == "capacity" and explained["reason"] == grown["waiting_reason"]
    assert explained["state"] == "active" and explained["expected_start_at"] is None
    message = Task.objects.get(kind="allocation.resize").message
    assert message == f"{small}: {grown['waiting_reason']}"
    alice.client.delete(f"{URL}/{large}")
    assert alice.granted(small) == (30, 3 * GIB), "the node has not confirmed the release"
    report(alice.node)
    assert alice.granted(small) == (50, 5 * GIB)
    read = alice.read(small)
    assert read["waiting_reason"] == "" and read["resize"]["state"] == "applying"


def test_resize_while_another_waits_replaces_it(alice: Client) -> None:
    small, _ = alice.allocate(percent=30), alice.allocate(percent=60)
    alice.resize(small, percent=90)
    alice.resize(small, percent=40)
    assert alice.granted(small) == (40, 4 * GIB)
    tasks = Task.objects.filter(kind="allocation.resize").order_by("created_at")
    assert [t.state for t in tasks] == ["cancelled", "running"]
    assert tasks[0].error == {"code": "cancelled", "detail": "replaced by another resize"}


def test_resize_to_the_granted_size_withdraws_one_that_waits(alice: Client) -> None:
    small, large = alice.allocate(percent=30), alice.allocate(percent=60)
    alice.resize(small, percent=90)
    withdrawn = alice.resize(small, percent=30)
    assert withdrawn["resize"] is None and withdrawn["waiting_reason"] == ""
    task = Task.objects.get(kind="allocation.resize")
    assert task.state == "cancelled" and task.error == {
        "code": "cancelled",
        "detail": "withdrawn by alice",
    }
    alice.client.delete(f"{URL}/{large}")
    report(alice.node)
    assert alice.granted(small) == (30, 3 * GIB) and alice.read(small)["resize"] is None


def test_same_size_changes_nothing(alice: Client) -> None:
    pk = alice.allocate(percent=30)
    version = alice.read(pk)["version"]
    assert alice.resize(pk, percent=30)["resize"] is None
    assert alice.read(pk)["version"] == version and kinds(pk) == []


def test_allocation_that_shrinks_can_grow_into_what_it_still_holds(alice: Client) -> None:
    pk, _ = alice.allocate(percent=60), alice.allocate(percent=40)
    alice.resize(pk, percent=20)
    report(alice.node, {pk: [5 * GIB]})
    assert taken() == (60, 9 * GIB)
    alice.resize(pk, percent=40)
    assert alice.granted(pk) == (40, 4 * GIB) and taken() == (80, 9 * GIB)
    alice.resize(pk, percent=60)
    assert alice.granted(pk) == (60, 6 * GIB) and taken() == (100, 10 * GIB)
    report(alice.node, {})
    assert alice.read(pk)["resize"] is None


def test_all_gpus_grow_or_none(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node = add_node(gpus=2)
    alice = Client(client_of(cast.alice), node)
    both = alice.allocate(percent=30, gpu_count=2)
    neighbour = alice.allocate(percent=60)
    assert alice.resize(both, percent=50)["resize"]["state"] == "queued"
    assert {p["compute_percent"] for p in alice.read(both)["partitions"]} == {30}
    alice.client.delete(f"{URL}/{neighbour}")
    report(node)
    assert {p["compute_percent"] for p in alice.read(both)["partitions"]} == {50}


@pytest.mark.parametrize("state", [s for s in AllocationState if s != AllocationState.ACTIVE])
def test_other_states_are_refused(alice: Client, state: AllocationState) -> None:
    pk = alice.allocate(percent=30)
    Allocation.objects.filter(pk=pk).update(state=state)
    refused = alice.resize(pk, 409, percent=20)
    assert refused["code"] == "conflict" and f"is {state}" in refused["detail"]


def test_whole_gpu_and_allocation_about_to_end_are_refused(alice: Client) -> None:
    pk = alice.allocate(percent=30)
    Allocation.objects.filter(pk=pk).update(evict_at=timezone.now(), end_reason="maintenance")
    assert "maintenance" in alice.resize(pk, 409, percent=20)["detail"]
    Allocation.objects.filter(pk=pk).update(evict_at=None, compute_mode="exclusive")
    assert "whole GPUs" in alice.resize(pk, 409, percent=20)["detail"]


def test_others_than_owner_and_manager_are_refused(
    cast: Cast, client_of: Clients, alice: Client
) -> None:
    pk = alice.allocate(percent=30)
    for user, status in ((cast.bob, 403), (cast.charlie, 404), (cast.vera, 403), (cast.olga, 202)):
        assert Client(client_of(user), alice.node).resize(pk, status, percent=31 + status % 3)


@pytest.mark.parametrize(
    ("quota", "rule"),
    [
        ({"limit_percent": 60}, "limit"),
        ({"quota_percent": 60, "borrows": False}, "quota"),
    ],
)
def test_growth_waits_for_a_limit_that_others_use(
    alice: Client, quota: dict[str, Any], rule: str
) -> None:
    project = Allocation.objects.get(pk=alice.allocate(percent=10)).project
    Quota.objects.create(subject_kind="project", subject_id=project.pk, **quota)
    pk, other = alice.allocate(percent=20), alice.allocate(percent=30)
    grown = alice.resize(pk, percent=50)
    assert grown["waiting_rule"] == rule and "project default" in grown["resize"]["reason"]
    assert alice.granted(pk) == (20, 2 * GIB)
    memory = alice.resize(pk, percent=20, memory_bytes=3 * GIB)
    assert memory["waiting_rule"] == rule, "the larger part of compute and memory counts"
    less = alice.resize(pk, percent=15, memory_bytes=2 * GIB)
    assert less["waiting_rule"] == "" and alice.granted(pk) == (15, 2 * GIB)
    traded = alice.resize(pk, percent=20, memory_bytes=GIB)
    assert traded["waiting_rule"] == "" and alice.granted(pk) == (20, GIB), "no larger than before"
    alice.resize(pk, percent=50)
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    assert alice.granted(pk) == (50, GIB)


def test_size_that_is_impossible_is_refused_and_changes_nothing(alice: Client) -> None:
    pk = alice.allocate(percent=20)
    before = alice.read(pk)
    refused = alice.resize(pk, 409, memory_bytes=11 * GIB)
    assert refused["code"] == "unsatisfiable" and "10240 MiB" in refused["detail"]
    project = Allocation.objects.get(pk=pk).project_id
    Quota.objects.create(subject_kind="project", subject_id=project, limit_percent=50)
    refused = alice.resize(pk, 409, percent=60)
    assert refused["code"] == "unsatisfiable" and "limit of project" in refused["detail"]
    assert alice.read(pk) == before and kinds(pk) == []


@pytest.mark.parametrize("size", [{"percent": 4}, {"memory_bytes": 400 * MIB}])
def test_size_without_room_for_a_context_is_refused_and_changes_nothing(
    alice: Client, size: dict[str, int]
) -> None:
    pk = alice.allocate(percent=20)
    Gpu.objects.update(context_bytes=415 * MIB)
    before = alice.read(pk)
    refused = alice.resize(pk, 409, **size)
    assert refused["code"] == "unsatisfiable"
    assert "take 415 MiB for a CUDA context" in refused["detail"]
    assert "(request at least 416 MiB)" in refused["detail"]
    assert alice.read(pk) == before and kinds(pk) == []
    alice.resize(pk, memory_bytes=416 * MIB)
    assert alice.granted(pk) == (20, 416 * MIB)


def test_size_granted_before_its_context_was_known_stays_possible(alice: Client) -> None:
    small, _ = alice.allocate(memory_bytes=200 * MIB), alice.allocate(percent=95)
    Gpu.objects.update(context_bytes=415 * MIB)
    assert alice.resize(small, memory_bytes=GIB)["waiting_rule"] == "capacity"
    assert alice.resize(small, memory_bytes=200 * MIB)["waiting_rule"] == ""
    assert alice.resize(small, compute_mode="capped")["granted_compute_mode"] == "capped"
    assert alice.resize(small, 409, memory_bytes=100 * MIB)["code"] == "unsatisfiable"
    assert alice.granted(small) == (2, 200 * MIB)


def test_full_disk_refuses_growth_and_permits_shrinking(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pk = alice.allocate(percent=30)
    monkeypatch.setattr(disk_space, "refuses_grants", lambda: True)
    assert alice.resize(pk, 507, percent=40)["code"] == "disk_full"
    alice.resize(pk, percent=20)
    assert alice.granted(pk) == (20, 2 * GIB)


def test_if_match_refuses_a_resize_of_another_version(alice: Client) -> None:
    pk = alice.allocate(percent=30)
    stale = alice.read(pk)["version"]
    alice.resize(pk, percent=40)
    headers = {"If-Match": f'"{stale}"'}
    refused = alice.client.patch(f"{URL}/{pk}", {"percent": 50}, format="json", headers=headers)
    assert refused.status_code == 412 and alice.granted(pk) == (40, 4 * GIB)
    headers = {"If-Match": f'"{alice.read(pk)["version"]}"'}
    done = alice.client.patch(f"{URL}/{pk}", {"percent": 50}, format="json", headers=headers)
    assert done.status_code == 202 and alice.granted(pk) == (50, 5 * GIB)


def test_dry_run_shows_the_outcome_and_changes_nothing(alice: Client) -> None:
    pk, _ = alice.allocate(percent=30), alice.allocate(percent=60)
    before = alice.read(pk)
    for percent, state in ((40, "applying"), (50, "queued")):
        response = alice.client.patch(
            f"{URL}/{pk}?dry_run=true", {"percent": percent}, format="json"
        )
        assert body(response)["resize"]["state"] == state
    assert alice.read(pk) == before and taken() == (90, 9 * GIB)


def test_unknown_field_and_empty_request_are_refused(alice: Client) -> None:
    pk = alice.allocate(percent=30)
    assert "percent" in str(alice.resize(pk, 400, percnt=50)["errors"])
    assert alice.resize(pk, 400, percent=101)["code"] == "invalid"
    assert alice.resize(pk)["resize"] is None


@pytest.mark.parametrize("known", [True, False])
def test_agent_that_does_not_tell_frees_memory_with_the_last_session(
    alice: Client, known: bool
) -> None:
    pk = alice.allocate(percent=60)
    alice.resize(pk, percent=20)
    node = Node.objects.get()
    over = {UUID(pk): [6 * GIB]} if known else None
    record_applied(node.pk, node.generation, {UUID(pk)}, over)
    assert alice.read(pk)["resize"]["state"] == "shrinking" and taken() == (20, 6 * GIB)
    record_applied(node.pk, node.generation, (), {} if known else None)
    assert alice.read(pk)["resize"] is None and taken() == (20, 2 * GIB)


def test_release_ends_a_resize_and_frees_all_memory(alice: Client) -> None:
    pk, _ = alice.allocate(percent=60), alice.allocate(percent=40)
    alice.resize(pk, percent=20)
    report(alice.node, {pk: [6 * GIB]})
    alice.resize(pk, percent=70)
    assert alice.read(pk)["resize"]["state"] == "queued"
    alice.client.delete(f"{URL}/{pk}")
    released = alice.read(pk)
    assert released["resize"] is None and released["waiting_reason"] == ""
    assert Task.objects.filter(kind="allocation.resize", state="running").count() == 0
    report(alice.node)
    assert taken() == (40, 4 * GIB)
    assert not scheduler.run_tick()


def test_growth_does_not_start_while_the_allocation_is_evicted(alice: Client) -> None:
    pk, other = alice.allocate(percent=30), alice.allocate(percent=60)
    alice.resize(pk, percent=80)
    eviction.evict(allocation_id=UUID(pk), reason="drain", grace_seconds=60)
    alice.client.delete(f"{URL}/{other}")
    report(alice.node)
    assert alice.granted(pk) == (30, 3 * GIB)


def test_claim_of_the_quota_reclaims_borrowed_capacity_for_growth(
    cast: Cast, client_of: Clients, alice: Client
) -> None:
    charlie = Client(client_of(cast.charlie), alice.node)
    pk = alice.allocate(percent=30)
    project = Allocation.objects.get(pk=pk).project_id
    Quota.objects.create(subject_kind="project", subject_id=project, quota_percent=100)
    borrowed = charlie.allocate(percent=70, project="elsewhere")
    grown = alice.resize(pk, percent=50)
    assert grown["waiting_rule"] == "reclaim"
    assert charlie.read(borrowed)["evict_at"] is not None
    assert alice.read(pk)["evict_at"] is None, "the allocation would evict itself"
    Allocation.objects.filter(pk=borrowed).update(evict_at=timezone.now() - timedelta(seconds=1))
    eviction.evict_expired()
    report(alice.node)
    assert alice.granted(pk) == (50, 5 * GIB)


def test_audit_has_the_old_and_the_new_size(alice: Client) -> None:
    pk = alice.allocate(percent=30)
    alice.resize(pk, percent=40)
    record = AuditRecord.objects.filter(object_id=pk).latest("pk")
    assert (record.before["percent"], record.after["percent"]) == (30, 40)
