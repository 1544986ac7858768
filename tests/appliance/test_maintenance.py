"""Maintenance of nodes: drain, withdrawal and completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils import timezone

from appliance.accounts.models import User
from appliance.allocations import eviction, maintenance, scheduler
from appliance.allocations.models import Allocation
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
URL = "/api/v1/allocations"


def request_allocation(client: Any, **values: Any) -> dict[str, Any]:
    return dict(body(client.post(URL, values, format="json")))


def read(client: Any, path: str) -> dict[str, Any]:
    return dict(body(client.get(f"/api/v1/{path}")))


def test_node_is_drained_after_notice_and_lists_its_blockers(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice, olga = add_node(), client_of(cast.alice), client_of(cast.olga)
    allocation = request_allocation(alice, percent=50)
    applied(node)
    answer = olga.post(
        f"/api/v1/nodes/{node.pk}/enter-maintenance", {"grace_seconds": 60}, format="json"
    )
    assert answer.status_code == 202 and body(answer)["state"] == "running"
    task = f"tasks/{body(answer)['id']}"
    assert read(olga, f"nodes/{node.pk}")["state"] == "draining"
    blockers = read(olga, f"nodes/{node.pk}/blockers")["items"]
    assert [(b["id"], b["owner"], b["state"]) for b in blockers] == [
        (allocation["id"], "alice", "active")
    ] and blockers[0]["evict_at"]
    assert "draining" in request_allocation(alice, percent=10)["waiting_reason"]
    maintenance.complete_drained_nodes()
    assert read(olga, task)["message"].startswith("1 allocation left")
    Allocation.objects.filter(pk=allocation["id"]).update(evict_at=timezone.now())
    eviction.evict_expired()
    maintenance.complete_drained_nodes()
    assert (
        read(olga, f"nodes/{node.pk}")["state"] == "draining"
        and "1 waiting for confirmation" in read(olga, task)["message"]
    )
    applied(node)
    maintenance.complete_drained_nodes()
    assert (
        read(olga, f"nodes/{node.pk}")["state"] == "maintenance"
        and read(olga, task)["state"] == "succeeded"
    )
    again = olga.post(f"/api/v1/nodes/{node.pk}/enter-maintenance", {}, format="json")
    assert again.status_code == 409
    assert body(olga.post(f"/api/v1/nodes/{node.pk}/exit-maintenance"))["state"] == "ready"
    scheduler.run_tick()
    assert Allocation.objects.filter(state="preparing").count() == 1, (
        "the queued request did not start afterwards"
    )


def test_exit_during_drain_withdraws_the_evictions(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice, olga = add_node(), client_of(cast.alice), client_of(cast.olga)
    allocation = request_allocation(alice, percent=50)
    applied(node)
    task = body(olga.post(f"/api/v1/nodes/{node.pk}/enter-maintenance", {}, format="json"))
    assert read(alice, f"allocations/{allocation['id']}")["evict_at"]
    assert olga.post(f"/api/v1/nodes/{node.pk}/exit-maintenance").status_code == 200
    stays = read(alice, f"allocations/{allocation['id']}")
    assert stays["evict_at"] is None and stays["state"] == "active" and not stays["end_reason"]
    assert read(olga, f"tasks/{task['id']}")["state"] == "cancelled"


def test_empty_node_enters_maintenance_at_once(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    path = f"/api/v1/nodes/{node.pk}/enter-maintenance"
    first = olga.post(path, {}, format="json", HTTP_IDEMPOTENCY_KEY="k")
    second = olga.post(path, {}, format="json", HTTP_IDEMPOTENCY_KEY="k")
    assert body(first)["state"] == "succeeded" and body(first) == body(second)
    assert read(olga, f"nodes/{node.pk}")["state"] == "maintenance"
