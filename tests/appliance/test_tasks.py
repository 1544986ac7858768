"""Tasks: what they say, whose part they are, and how they are cancelled. Events by what they are about."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from appliance.accounts.models import RoleBinding, User
from appliance.activity import tasks
from appliance.activity.models import Event, Task, TaskState
from appliance.activity.services import task_start
from appliance.allocations import maintenance, services
from appliance.allocations.models import Allocation, AllocationState
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db


def ask(client: Any, **wanted: Any) -> dict[str, Any]:
    answer: dict[str, Any] = body(client.post("/api/v1/allocations", wanted, format="json"))
    return answer


def task_of(
    client: Any, allocation: dict[str, Any], kind: str = "allocation.prepare"
) -> dict[str, Any]:
    found = body(client.get(f"/api/v1/tasks?kind={kind}"))["items"]
    return next(t for t in found if t["path"].endswith(allocation["id"]))


def test_the_task_of_a_request_tells_why_it_waits_and_cancelling_it_leaves_the_queue(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    alice = client_of(cast.alice)
    waiting = ask(alice, gpu_count=2, percent=50)
    task = task_of(alice, waiting)
    assert (task["state"], task["cancellable"], task["message"]) == (
        "running",
        True,
        waiting["waiting_reason"],
    )
    add_node(gpus=1)
    services.queue_advance()
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
        and "alice cancelled it" in allocation.end_reason
    )
    assert alice.post(f"/api/v1/tasks/{task['id']}/cancel").status_code == 409


def test_a_task_whose_kind_cannot_be_cancelled_says_so(cast: Cast, client_of: Clients) -> None:
    task = task_start(kind="thing.done", path="things/1", initiator=cast.olga)
    answer = client_of(cast.olga).post(f"/api/v1/tasks/{task.pk}/cancel")
    assert (answer.status_code, body(answer)["code"]) == (409, "not_supported")
    assert Task.objects.get(pk=task.pk).state == TaskState.RUNNING


def test_who_leaves_for_maintenance_is_a_part_of_its_task_and_cancelling_it_lets_them_stay(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga, alice = add_node(gpus=2), client_of(cast.olga), client_of(cast.alice)
    mine = [ask(alice, percent=10), ask(alice, percent=20)]
    applied(node)
    whole = body(
        olga.post(
            f"/api/v1/nodes/{node.pk}/enter-maintenance", {"grace_seconds": 100}, format="json"
        )
    )
    parts = body(olga.get(f"/api/v1/tasks?parent_id={whole['id']}"))["items"]
    assert {p["path"].rpartition("/")[2] for p in parts} == {a["id"] for a in mine} and {
        p["state"] for p in parts
    } == {"running"}
    services.evict(allocation_id=uuid.UUID(mine[0]["id"]), reason="now")
    applied(node)
    maintenance.advance()
    assert task_of(olga, mine[0], "allocation.evict")["state"] == "succeeded"
    assert (
        "1 allocations are left"
        in body(olga.get(f"/api/v1/tasks/{whole['id']}/log"))["items"][0]["message"]
    )
    assert body(olga.post(f"/api/v1/tasks/{whole['id']}/cancel"))["state"] == "cancelled"
    assert task_of(olga, mine[1], "allocation.evict")["state"] == "cancelled"
    node.refresh_from_db()
    stays = Allocation.objects.get(pk=mine[1]["id"])
    assert (
        node.state == "ready" and stays.state == AllocationState.ACTIVE and stays.evict_at is None
    )


def test_who_lost_the_role_may_not_cancel_what_he_began(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    alice = client_of(cast.alice)
    mine = ask(alice, percent=10)
    applied(node)
    whole = body(
        olga.post(
            f"/api/v1/nodes/{node.pk}/enter-maintenance", {"grace_seconds": 100}, format="json"
        )
    )
    RoleBinding.objects.filter(user=cast.olga).update(role="viewer")
    RoleBinding.objects.get(user=cast.olga).save()
    refused = client_of(User.objects.get(pk=cast.olga.pk)).post(
        f"/api/v1/tasks/{whole['id']}/cancel"
    )
    assert refused.status_code == 403 and "inventory.manage" in body(refused)["detail"]
    assert Task.objects.get(pk=whole["id"]).state == TaskState.RUNNING
    waiting = ask(alice, percent=50)  # its only node is leaving
    assert (
        body(alice.post(f"/api/v1/tasks/{task_of(alice, waiting)['id']}/cancel"))["state"]
        == "cancelled"
    ), "a tenant may cancel what is his"
    assert Allocation.objects.get(pk=mine["id"]).state == AllocationState.ACTIVE


@pytest.mark.django_db(transaction=True)
def test_work_that_was_cancelled_stops_at_its_next_word(cast: Cast) -> None:
    task, said = task_start(kind="thing.done", path="things/1", initiator=cast.olga), []

    def work(progress: tasks.Progress) -> None:
        progress.say(10, "begun")
        tasks.task_cancel(path=task.path, kind=task.kind, actor="olga")
        progress.say(20, "not reached")
        said.append("went on")

    assert tasks.attempt(task, work) is None and not said
    task.refresh_from_db()
    assert task.state == TaskState.CANCELLED and [line.message for line in task.lines.all()] == [
        "begun"
    ]


def test_events_are_found_by_what_they_are_about_by_whom_and_when(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    olga.post(f"/api/v1/nodes/{node.pk}/cordon")
    allocation = ask(client_of(cast.alice), percent=50)

    def kinds(query: str) -> set[str]:
        return {e["kind"] for e in body(olga.get(f"/api/v1/events?{query}"))["items"]}

    assert kinds(f"path={node.path}") >= {"node.cordoned"} and not any(
        k.startswith("allocation") for k in kinds(f"path={node.path}")
    )
    assert kinds("actor=olga") == {"node.cordoned"} and kinds(f"object_id={allocation['id']}") == {
        "allocation.waiting"
    }
    assert kinds("kind=allocation.waiting") == {"allocation.waiting"}
    tomorrow = (timezone.now() + timedelta(days=1)).isoformat().replace("+00:00", "Z")
    assert kinds(f"since={tomorrow}") == set() and len(kinds(f"until={tomorrow}")) == len(
        set(Event.objects.values_list("kind", flat=True))
    )
    for wrong in ("since=yesterday", "since=2026-01-01T00:00:00", "object_id=x", "colour=red"):
        assert olga.get(f"/api/v1/events?{wrong}").status_code == 400
