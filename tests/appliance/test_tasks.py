"""Tasks: log, parents and cancellation. Filters of events."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from appliance.accounts.models import RoleBinding, User
from appliance.activity import task_runner, tasks
from appliance.activity.models import Event, Task, TaskState
from appliance.activity.tasks import task_start
from appliance.allocations import eviction, maintenance, scheduler
from appliance.allocations.models import Allocation, AllocationState
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db


def request_allocation(client: Any, **content: Any) -> dict[str, Any]:
    response: dict[str, Any] = body(client.post("/api/v1/allocations", content, format="json"))
    return response


def task_of(
    client: Any, allocation: dict[str, Any], kind: str = "allocation.prepare"
) -> dict[str, Any]:
    found = body(client.get(f"/api/v1/tasks?kind={kind}"))["items"]
    return next(t for t in found if t["path"].endswith(allocation["id"]))


def test_task_of_a_request_logs_the_waiting_reason_and_cancelling_it_ends_the_request(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    alice = client_of(cast.alice)
    waiting = request_allocation(alice, gpu_count=2, percent=50, allow_pending=True)
    task = task_of(alice, waiting)
    assert (task["state"], task["cancellable"], task["message"]) == (
        "running",
        True,
        waiting["waiting_reason"],
    )
    add_node(gpus=1)
    scheduler.run_tick()
    lines = body(alice.get(f"/api/v1/tasks/{task['id']}/log"))["items"]
    assert (
        len(lines) == 2 and lines[1]["message"] == waiting["waiting_reason"] != lines[0]["message"]
    )
    ended = body(alice.post(f"/api/v1/tasks/{task['id']}/cancel"))
    assert (ended["state"], ended["cancellable"], ended["error"]["code"]) == (
        "cancelled",
        False,
        "cancelled",
    )
    allocation = Allocation.objects.get(pk=waiting["id"])
    assert (
        allocation.state == AllocationState.RELEASED
        and "cancelled by alice" in allocation.end_reason
    )
    assert alice.post(f"/api/v1/tasks/{task['id']}/cancel").status_code == 409


def test_task_is_cancelled_although_it_has_progressed_since_it_was_read(
    cast: Cast, client_of: Clients
) -> None:
    alice = client_of(cast.alice)
    path = f"/api/v1/tasks/{task_of(alice, request_allocation(alice, allow_pending=True))['id']}"
    tag = alice.get(path)["ETag"]
    task = Task.objects.get(pk=path.rpartition("/")[2])
    tasks.task_log(path=task.path, kind=task.kind, message="half done", progress_percent=50)
    assert alice.get(path)["ETag"] != tag
    cancelled = alice.post(f"{path}/cancel", headers={"If-Match": tag})
    assert body(cancelled)["state"] == "cancelled"


def test_cancelling_a_task_without_canceller_is_not_supported(
    cast: Cast, client_of: Clients
) -> None:
    task = task_start(kind="thing.done", path="things/1", initiator=cast.olga)
    response = client_of(cast.olga).post(f"/api/v1/tasks/{task.pk}/cancel")
    assert (response.status_code, body(response)["code"]) == (409, "not_supported")
    assert Task.objects.get(pk=task.pk).state == TaskState.RUNNING


def test_cancelled_maintenance_task_cancels_its_eviction_tasks(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga, alice = add_node(gpus=2), client_of(cast.olga), client_of(cast.alice)
    allocations = [request_allocation(alice, percent=10), request_allocation(alice, percent=20)]
    applied(node)
    task = body(
        olga.post(
            f"/api/v1/nodes/{node.pk}/enter-maintenance", {"grace_seconds": 100}, format="json"
        )
    )
    evictions = body(olga.get(f"/api/v1/tasks?parent_id={task['id']}"))["items"]
    assert {p["path"].rpartition("/")[2] for p in evictions} == {a["id"] for a in allocations} and {
        p["state"] for p in evictions
    } == {"running"}
    eviction.evict(allocation_id=uuid.UUID(allocations[0]["id"]), reason="now")
    applied(node)
    maintenance.complete_drained_nodes()
    assert task_of(olga, allocations[0], "allocation.evict")["state"] == "succeeded"
    assert (
        "1 allocation left"
        in body(olga.get(f"/api/v1/tasks/{task['id']}/log"))["items"][0]["message"]
    )
    assert body(olga.post(f"/api/v1/tasks/{task['id']}/cancel"))["state"] == "cancelled"
    assert task_of(olga, allocations[1], "allocation.evict")["state"] == "cancelled"
    node.refresh_from_db()
    remaining = Allocation.objects.get(pk=allocations[1]["id"])
    assert (
        node.state == "ready"
        and remaining.state == AllocationState.ACTIVE
        and remaining.evict_at is None
    )


def test_initiator_without_the_privilege_cannot_cancel(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    alice = client_of(cast.alice)
    allocation = request_allocation(alice, percent=10)
    applied(node)
    task = body(
        olga.post(
            f"/api/v1/nodes/{node.pk}/enter-maintenance", {"grace_seconds": 100}, format="json"
        )
    )
    RoleBinding.objects.filter(user=cast.olga).update(role="viewer")
    RoleBinding.objects.get(user=cast.olga).save()
    refused = client_of(User.objects.get(pk=cast.olga.pk)).post(
        f"/api/v1/tasks/{task['id']}/cancel"
    )
    assert refused.status_code == 403 and "inventory.manage" in body(refused)["detail"]
    assert Task.objects.get(pk=task["id"]).state == TaskState.RUNNING
    waiting = request_allocation(alice, percent=50)  # its only node enters maintenance
    assert (
        body(alice.post(f"/api/v1/tasks/{task_of(alice, waiting)['id']}/cancel"))["state"]
        == "cancelled"
    ), "a user may cancel a task of an own allocation"
    assert Allocation.objects.get(pk=allocation["id"]).state == AllocationState.ACTIVE


@pytest.mark.django_db(transaction=True)
def test_cancelled_work_stops_at_its_next_progress_report(cast: Cast) -> None:
    task = task_start(kind="thing.done", path="things/1", initiator=cast.olga)
    continued = False

    def work(progress: task_runner.Progress) -> None:
        nonlocal continued
        progress.report(10, "started")
        tasks.task_cancel(path=task.path, kind=task.kind, reason="cancelled by olga")
        progress.report(20, "not reached")
        continued = True

    assert task_runner.run_work(task, work) is None and not continued
    task.refresh_from_db()
    assert task.state == TaskState.CANCELLED and [line.message for line in task.lines.all()] == [
        "started"
    ]


def test_events_are_filtered_by_path_object_kind_actor_and_time(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    olga.post(f"/api/v1/nodes/{node.pk}/cordon")
    allocation = request_allocation(client_of(cast.alice), percent=50)

    def kinds(query: str) -> set[str]:
        return {e["kind"] for e in body(olga.get(f"/api/v1/events?{query}"))["items"]}

    assert kinds(f"path={node.path}") >= {"node.cordoned"} and not any(
        k.startswith("allocation") for k in kinds(f"path={node.path}")
    )
    assert kinds("actor=olga") == {"node.cordoned"} and kinds(f"object_id={allocation['id']}") == {
        "allocation.queued"
    }
    assert kinds("kind=allocation.queued") == {"allocation.queued"}
    tomorrow = (timezone.now() + timedelta(days=1)).isoformat().replace("+00:00", "Z")
    assert kinds(f"since={tomorrow}") == set() and len(kinds(f"until={tomorrow}")) == len(
        set(Event.objects.values_list("kind", flat=True))
    )
    for wrong in ("since=yesterday", "since=2026-01-01T00:00:00", "object_id=x", "colour=red"):
        assert olga.get(f"/api/v1/events?{wrong}").status_code == 400
