"""Bulk requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import IdempotencyKey, User
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
    contents = [
        {"method": m, "path": p, **({"body": b} if b is not None else {})} for m, p, b in operations
    ]
    return client.post(
        f"/api/v1/bulk{query}", {"operations": contents, "atomic": atomic}, format="json", **headers
    )


def statuses(response: Any) -> list[int]:
    return [r["status"] for r in body(response)["results"]]


def test_each_operation_has_its_own_status_and_privilege(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    first, second = add_node("first"), add_node("second")
    operations = [("POST", f"nodes/{n.pk}/cordon", None) for n in (first, second)]
    response = bulk(
        client_of(cast.olga),
        *operations,
        ("GET", "nodes?state=cordoned", None),
        ("GET", "a://[invalid", None),
        ("POST", "pools", {"name": ""}),
    )
    assert statuses(response) == [200, 200, 200, 404, 400]
    assert {n["name"] for n in body(response)["results"][2]["body"]["items"]} == {"first", "second"}
    assert statuses(bulk(client_of(cast.alice), *operations, ("GET", "me", None))) == [
        403,
        403,
        200,
    ]


def test_failed_operation_rolls_back_an_atomic_request(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
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
def test_repeated_request_with_idempotency_key_has_its_effect_once(
    cast: Cast, client_of: Clients, add_node: AddNode, atomic: bool
) -> None:
    add_node()
    alice, operations = (
        client_of(cast.alice),
        [("POST", "allocations", {"percent": percent}) for percent in (10, 20)],
    )
    both = [
        body(bulk(alice, *operations, atomic=atomic, HTTP_IDEMPOTENCY_KEY="again"))
        for _ in range(2)
    ]
    assert both[0] == both[1] and Allocation.objects.count() == 2


def test_dry_run_changes_nothing_and_rejects_operations_without_rollback(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    assert statuses(
        bulk(olga, ("POST", f"nodes/{node.pk}/cordon", None), query="?dry_run=true")
    ) == [200]
    node.refresh_from_db()
    assert node.state == "ready"
    leaves = ("POST", "nodes/enrol-ssh", {"address": "127.0.0.1", "port": 1, "password": "x"})
    for response in (bulk(olga, leaves, query="?dry_run=true"), bulk(olga, leaves, atomic=True)):
        assert response.status_code == 400 and "cannot be rolled back" in body(response)["detail"]


def test_dry_run_inside_an_atomic_request_rolls_back_only_itself(
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
def test_unsupported_path_is_rejected(cast: Cast, client_of: Clients, path: str) -> None:
    response = bulk(
        client_of(cast.olga),
        ("POST" if path == "bulk" else "GET", path, {"operations": []} if path == "bulk" else None),
    )
    assert response.status_code == 400, body(response)


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("login", {"username": "admin", "password": "guess"}),
        ("browser-login", {"username": "admin", "password": "guess"}),
        ("enrol", {"secret": "guess"}),
    ],
)
def test_bulk_request_cannot_avoid_the_delays_between_logins(
    cast: Cast, client_of: Clients, path: str, content: dict[str, str]
) -> None:
    response = bulk(client_of(cast.alice), *[("POST", path, content)] * 20)
    assert response.status_code == 400, body(response)


@pytest.mark.parametrize("dry_run", [False, True])
def test_reads_cannot_hold_the_writer(cast: Cast, client_of: Clients, dry_run: bool) -> None:
    response = bulk(
        client_of(cast.vera),
        *[("GET", "events?limit=500", None)] * 100,
        query="?dry_run=true" if dry_run else "",
        atomic=not dry_run,
        HTTP_IDEMPOTENCY_KEY="stored",
    )
    assert response.status_code == 400, body(response)
    assert not IdempotencyKey.objects.exists()


def test_results_are_bounded(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node()
    monkeypatch.setattr("appliance.activity.bulk.MAX_RESULT_BYTES", 1000)
    response = bulk(
        client_of(cast.olga),
        *[("GET", "nodes", None)] * 3,
        ("POST", f"nodes/{node.pk}/cordon", None),
    )
    assert statuses(response) == [200, 200, 413, 413]
    node.refresh_from_db()
    assert node.state == "ready"


def test_download_is_refused(
    cast: Cast, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.fleet.bundle.build_tar", lambda python: b"\xff")
    monkeypatch.setattr("appliance.fleet.bundle.digest", lambda: "0")
    response = bulk(client_of(cast.olga), ("GET", "bundles/3.11", None))
    assert response.status_code == 400 and "downloads" in body(response)["detail"]
