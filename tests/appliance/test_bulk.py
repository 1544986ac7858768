"""Many operations in one request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import User
from appliance.allocations.models import Allocation
from appliance.inventory.models import Node
from appliance.pools.models import Pool
from tests.appliance.conftest import Cast, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db


def bulk(
    client: Any,
    *operations: tuple[str, str, Any],
    query: str = "",
    atomic: bool = False,
    **headers: str,
) -> Any:
    written = [
        {"method": m, "path": p, **({"body": b} if b is not None else {})} for m, p, b in operations
    ]
    return client.post(
        f"/api/v1/bulk{query}", {"operations": written, "atomic": atomic}, format="json", **headers
    )


def statuses(answer: Any) -> list[int]:
    return [r["status"] for r in body(answer)["results"]]


def test_each_has_its_own_answer_and_its_own_privilege(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    first, second = add_node("first"), add_node("second")
    wanted = [("POST", f"nodes/{n.pk}/cordon", None) for n in (first, second)]
    answer = bulk(
        client_of(cast.olga),
        *wanted,
        ("GET", "nodes?state=cordoned", None),
        ("GET", "a://[nowhere", None),
        ("POST", "pools", {"name": ""}),
    )
    assert statuses(answer) == [200, 200, 200, 404, 400]
    assert {n["name"] for n in body(answer)["results"][2]["body"]["items"]} == {"first", "second"}
    assert statuses(bulk(client_of(cast.alice), *wanted, ("GET", "me", None))) == [403, 403, 200]


def test_atomic_is_all_or_none(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node, olga = add_node(), client_of(cast.olga)
    refused = bulk(
        olga,
        ("POST", f"nodes/{node.pk}/cordon", None),
        ("POST", "pools", {"name": "made"}),
        ("POST", "pools", {"name": "made"}),
        atomic=True,
    )
    assert (
        refused.status_code == 409
        and "Operation 3 of 3" in body(refused)["detail"]
        and statuses(refused) == [200, 201, 409]
    )
    node.refresh_from_db()
    assert node.state == "ready" and not Pool.objects.filter(name="made").exists()
    assert statuses(
        bulk(
            olga,
            ("POST", f"nodes/{node.pk}/cordon", None),
            ("POST", "pools", {"name": "made"}),
            atomic=True,
        )
    ) == [200, 201]
    node.refresh_from_db()
    assert node.state == "cordoned" and Pool.objects.filter(name="made").exists()


@pytest.mark.parametrize("atomic", [False, True])
def test_a_repeated_request_has_its_effect_once(
    cast: Cast, client_of: Clients, add_node: AddNode, atomic: bool
) -> None:
    add_node()
    alice, wanted = (
        client_of(cast.alice),
        [("POST", "allocations", {"percent": percent}) for percent in (10, 20)],
    )
    both = [
        body(bulk(alice, *wanted, atomic=atomic, HTTP_IDEMPOTENCY_KEY="again")) for _ in range(2)
    ]
    assert both[0] == both[1] and Allocation.objects.count() == 2


def test_a_trial_changes_nothing_and_what_cannot_be_undone_is_no_part_of_it(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    assert statuses(
        bulk(olga, ("POST", f"nodes/{node.pk}/cordon", None), query="?dry_run=true")
    ) == [200]
    node.refresh_from_db()
    assert node.state == "ready"
    leaves = ("POST", "nodes/enrol-ssh", {"address": "127.0.0.1", "port": 1, "password": "x"})
    for answer in (bulk(olga, leaves, query="?dry_run=true"), bulk(olga, leaves, atomic=True)):
        assert answer.status_code == 400 and "cannot be undone" in body(answer)["detail"]


def test_a_trial_inside_of_all_or_none_changes_nothing_and_the_rest_stays(
    cast: Cast, client_of: Clients
) -> None:
    tried, made = (
        ("POST", "pools?dry_run=true", {"name": "tried"}),
        ("POST", "pools", {"name": "made"}),
    )
    assert statuses(bulk(client_of(cast.olga), made, tried, atomic=True)) == [201, 201]
    assert set(Pool.objects.filter(name__in=["tried", "made"]).values_list("name", flat=True)) == {
        "made"
    }


@pytest.mark.parametrize("path", ["bulk", "watch", "../../healthz"])
def test_what_is_no_part_of_many(cast: Cast, client_of: Clients, path: str) -> None:
    answer = bulk(
        client_of(cast.olga),
        ("POST" if path == "bulk" else "GET", path, {"operations": []} if path == "bulk" else None),
    )
    assert answer.status_code == 400, body(answer)
