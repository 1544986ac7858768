"""How much there is, can be given, is given, works, and is held for nothing."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import RoleBinding, User
from appliance.inventory.models import Gpu, Node
from appliance.pools.services import PoolRules, pool_create
from appliance.telemetry import latest, series
from tests.appliance.conftest import GIB, Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db
METRICS = ("memory_used_bytes", "utilisation_percent")


def told(gpu: Gpu, used_bytes: float, utilisation_percent: float) -> None:
    series.record(METRICS, {gpu.pk: [used_bytes, utilisation_percent]}, time.time())


def row(answer: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(r for r in answer["items"] if r["name"] == name)
    return found


def test_of_each_node_what_can_be_given_is_given_works_and_idles(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    first, second = add_node("first", gpus=2), add_node("second", gpus=1)
    assert body(
        client_of(cast.alice).post(
            "/api/v1/allocations", {"percent": 50, "gpu_count": 2}, format="json"
        )
    )["partitions"]
    applied(first)
    one, other = Gpu.objects.filter(node=first).order_by("index")
    told(one, 3 * GIB, 90.0)
    told(other, 0.0, 10.0)
    client_of(cast.olga).post(f"/api/v1/nodes/{second.pk}/cordon")
    answer = body(client_of(cast.alice).get("/api/v1/capacity?by=node"))
    assert row(answer, "first")["gpus"] == {
        "capacity": 2,
        "allocatable": 2,
        "allocated": 1.0,
        "used": 1.0,
        "idle": 0.4,
    }
    assert row(answer, "first")["memory_bytes"] == {
        "capacity": 16 * GIB, "allocatable": 16 * GIB, "allocated": 8 * GIB, "used": 3 * GIB, "idle": 5 * GIB,
    }  # fmt: skip
    assert row(answer, "second")["gpus"] == {
        "capacity": 1,
        "allocatable": 0,
        "allocated": 0,
        "used": 0,
        "idle": 0,
    }
    assert (answer["total"]["gpus"]["capacity"], answer["total"]["gpus"]["allocatable"]) == (3, 2)


def test_what_is_gone_silent_or_in_no_pool_cannot_be_given(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    gone, silent, out = add_node("gone"), add_node("silent"), add_node("out")
    Gpu.objects.filter(node=gone).update(present=False)
    latest.forget(silent.pk)
    client_of(cast.olga).patch(
        f"/api/v1/gpus/{Gpu.objects.get(node=out).pk}", {"pool": ""}, format="json"
    )
    answer = body(client_of(cast.olga).get("/api/v1/capacity"))
    assert answer["total"]["gpus"] == {
        "capacity": 2,
        "allocatable": 0,
        "allocated": 0,
        "used": 0,
        "idle": 0,
    }
    assert (
        row(answer, "in no pool")["gpus"]["capacity"] == 1
        and row(answer, "default")["gpus"]["capacity"] == 1
    )
    assert [
        r["name"] for r in body(client_of(cast.olga).get("/api/v1/capacity?by=model"))["items"]
    ] == ["Test GPU"]


def test_one_counts_only_what_one_sees(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node = add_node(gpus=2)
    theirs = RoleBinding.objects.get(user=cast.charlie).project
    assert theirs is not None
    kept = pool_create(
        name=f"kept-{uuid.uuid4().hex[:6]}", rules=PoolRules(projects=[theirs.name]), actor="test"
    )
    Gpu.objects.filter(node=node, index=0).update(pool=kept)
    assert body(client_of(cast.alice).get("/api/v1/capacity"))["total"]["gpus"]["capacity"] == 1
    assert body(client_of(cast.olga).get("/api/v1/capacity"))["total"]["gpus"]["capacity"] == 2
    assert client_of(cast.olga).get("/api/v1/capacity?by=colour").status_code == 400
