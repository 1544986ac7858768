"""Maintenance mode: nothing new comes, what is there gets notice, and an empty node may be worked on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.utils import timezone

from appliance.accounts.models import User
from appliance.allocations import maintenance, services
from appliance.allocations.models import Allocation
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
URL = "/api/v1/allocations"


def ask(client: Any, **wanted: Any) -> dict[str, Any]:
    return dict(body(client.post(URL, wanted, format="json")))


def now(client: Any, path: str) -> dict[str, Any]:
    return dict(body(client.get(f"/api/v1/{path}")))


def test_a_node_is_emptied_with_notice_and_says_what_blocks_it(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice, olga = add_node(), client_of(cast.alice), client_of(cast.olga)
    held = ask(alice, percent=50)
    applied(node)
    answer = olga.post(
        f"/api/v1/nodes/{node.pk}/enter-maintenance", {"grace_seconds": 60}, format="json"
    )
    assert answer.status_code == 202 and body(answer)["state"] == "running"
    task = f"tasks/{body(answer)['id']}"
    assert now(olga, f"nodes/{node.pk}")["state"] == "draining"
    blockers = now(olga, f"nodes/{node.pk}/blockers")["items"]
    assert [(b["id"], b["owner"], b["state"]) for b in blockers] == [
        (held["id"], "alice", "active")
    ] and blockers[0]["evict_at"]
    assert "draining" in ask(alice, percent=10)["waiting_reason"]
    maintenance.advance()
    assert now(olga, task)["message"].startswith("1 allocations are left")
    Allocation.objects.filter(pk=held["id"]).update(evict_at=timezone.now())
    services.end_what_is_due()
    maintenance.advance()
    assert (
        now(olga, f"nodes/{node.pk}")["state"] == "draining"
        and "1 of them wait for the node's word" in now(olga, task)["message"]
    )
    applied(node)
    maintenance.advance()
    assert (
        now(olga, f"nodes/{node.pk}")["state"] == "maintenance"
        and now(olga, task)["state"] == "succeeded"
    )
    again = olga.post(f"/api/v1/nodes/{node.pk}/enter-maintenance", {}, format="json")
    assert again.status_code == 409
    assert body(olga.post(f"/api/v1/nodes/{node.pk}/exit-maintenance"))["state"] == "ready"
    services.queue_advance()
    assert Allocation.objects.filter(state="preparing").count() == 1, (
        "who waited did not start afterwards"
    )


def test_never_mind_withdraws_the_notices(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice, olga = add_node(), client_of(cast.alice), client_of(cast.olga)
    held = ask(alice, percent=50)
    applied(node)
    task = body(olga.post(f"/api/v1/nodes/{node.pk}/enter-maintenance", {}, format="json"))
    assert now(alice, f"allocations/{held['id']}")["evict_at"]
    assert olga.post(f"/api/v1/nodes/{node.pk}/exit-maintenance").status_code == 200
    stays = now(alice, f"allocations/{held['id']}")
    assert stays["evict_at"] is None and stays["state"] == "active" and not stays["end_reason"]
    assert now(olga, f"tasks/{task['id']}")["state"] == "cancelled"


def test_an_empty_node_is_in_maintenance_at_once_and_a_repeated_request_is_one_task(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    path = f"/api/v1/nodes/{node.pk}/enter-maintenance"
    first = olga.post(path, {}, format="json", HTTP_IDEMPOTENCY_KEY="k")
    second = olga.post(path, {}, format="json", HTTP_IDEMPOTENCY_KEY="k")
    assert body(first)["state"] == "succeeded" and body(first) == body(second)
    assert now(olga, f"nodes/{node.pk}")["state"] == "maintenance"
