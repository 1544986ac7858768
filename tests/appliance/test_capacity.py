"""Capacity: present, allocatable, allocated, used and idle."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import RoleBinding, User
from appliance.inventory.models import Gpu, Node
from appliance.pools.services import create_pool
from appliance.telemetry import reachability, series
from tests.appliance.conftest import GIB, Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db
METRICS = ("memory_used_bytes", "utilisation_percent")


def record_sample(gpu: Gpu, used_bytes: float, utilisation_percent: float) -> None:
    series.record(METRICS, {gpu.pk: [used_bytes, utilisation_percent]}, time.time())


def row(answer: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(r for r in answer["items"] if r["name"] == name)
    return found


def test_capacity_by_node_separates_allocated_used_and_idle(
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
    record_sample(one, 3 * GIB, 90.0)
    record_sample(other, 0.0, 10.0)
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
        "capacity": 16 * GIB,
        "allocatable": 16 * GIB,
        "allocated": 8 * GIB,
        "used": 3 * GIB,
        "idle": 5 * GIB,
    }
    assert row(answer, "second")["gpus"] == {
        "capacity": 1,
        "allocatable": 0,
        "allocated": 0,
        "used": 0,
        "idle": 0,
    }
    assert (answer["total"]["gpus"]["capacity"], answer["total"]["gpus"]["allocatable"]) == (3, 2)


def test_missing_unreachable_and_unpooled_gpus_are_not_allocatable(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    gone, silent, out = add_node("gone"), add_node("silent"), add_node("out")
    Gpu.objects.filter(node=gone).update(present=False)
    reachability.forget_node(silent.pk)
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


def test_capacity_counts_only_visible_gpus(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node(gpus=2)
    theirs = RoleBinding.objects.get(user=cast.charlie).project
    assert theirs is not None
    values = {"name": f"kept-{uuid.uuid4().hex[:6]}", "projects": [theirs.name]}
    kept = create_pool(values=values, actor="test")
    Gpu.objects.filter(node=node, index=0).update(pool=kept)
    assert body(client_of(cast.alice).get("/api/v1/capacity"))["total"]["gpus"]["capacity"] == 1
    assert body(client_of(cast.olga).get("/api/v1/capacity"))["total"]["gpus"]["capacity"] == 2
    assert client_of(cast.olga).get("/api/v1/capacity?by=colour").status_code == 400
