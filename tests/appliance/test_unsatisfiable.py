"""Requests, quotas and reservations that no state of the pool could satisfy are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import User
from appliance.allocations.models import Allocation
from appliance.inventory.models import Gpu, Node, NodeState
from appliance.pools.models import Pool
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]


def allocate(client: Any, **request: object) -> Any:
    return client.post("/api/v1/allocations", request, format="json")


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"gpu_count": 4}, "2 matching of 2 registered GPUs"),
        ({"gpu_count": 2, "same_node": True}, "on one node"),
        ({"memory_bytes": 9 << 30}, "have less than 9216 MiB"),
        ({"model": "H100"}, "2 are not H100"),
        ({"selector": {"rack": "r1"}}, "lack the labels rack=r1"),
    ],
)
def test_request_that_can_never_start_is_refused_with_the_reason(
    cast: Cast, client_of: Clients, add_node: AddNode, request_: dict[str, Any], reason: str
) -> None:
    add_node("a"), add_node("b")
    alice = client_of(cast.alice)
    refused = allocate(alice, **request_)
    assert (refused.status_code, body(refused)["code"]) == (409, "unsatisfiable")
    assert reason in body(refused)["detail"]
    assert not Allocation.objects.exists()
    pending = allocate(alice, **request_, allow_pending=True)
    assert (pending.status_code, body(pending)["state"]) == (202, "queued")


def test_refusal_counts_the_gpus_of_each_pool(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(gpus=2), client_of(cast.olga)
    assert olga.post("/api/v1/pools", {"name": "a100"}, format="json").status_code == 201
    path = f"/api/v1/pools/{Pool.objects.get(name='default').pk}"
    assert olga.patch(path, {"fallbacks": ["a100"]}, format="json").status_code == 200
    path = f"/api/v1/gpus/{node.gpus.get(index=1).pk}"
    assert olga.patch(path, {"pool": "a100"}, format="json").status_code == 200
    refused = allocate(client_of(cast.alice), gpu_count=2, compute_mode="exclusive")
    assert body(refused)["code"] == "unsatisfiable"
    assert (
        "Requested 2 × whole, but pool default has 1 matching of 1 registered GPUs. Pool a100 has "
        "1 matching of 1 registered GPUs. A request takes all of its GPUs from one pool. Change"
    ) in body(refused)["detail"]


@pytest.mark.parametrize(
    ("request_", "mebibytes"), [({"percent": 5}, 408), ({"memory_bytes": 81 << 20}, 82)]
)
def test_request_without_room_for_a_context_is_refused_with_both_numbers(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    request_: dict[str, Any],
    mebibytes: int,
) -> None:
    add_node(gpus=2)
    Gpu.objects.update(context_bytes=415 << 20)
    alice = client_of(cast.alice)
    refused = body(allocate(alice, **request_))
    assert refused["code"] == "unsatisfiable"
    assert (
        "has 0 matching of 2 registered GPUs: 2 take 415 MiB for a CUDA context, and the request "
        f"has {mebibytes} MiB (request at least 416 MiB). Change the request"
    ) in refused["detail"]
    assert body(allocate(alice, memory_bytes=416 << 20))["state"] == "preparing"


def test_request_waits_for_gpus_in_use_or_out_of_service(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(gpus=2), client_of(cast.alice)
    assert body(allocate(alice, gpu_count=2))["state"] == "preparing"
    applied(node)
    assert body(allocate(alice, gpu_count=2))["state"] == "queued"
    client_of(cast.olga).post(f"/api/v1/nodes/{node.pk}/cordon")
    node.refresh_from_db()
    assert node.state != NodeState.READY
    assert body(allocate(alice, gpu_count=1))["state"] == "queued"


@pytest.mark.parametrize(
    ("quota", "request_"),
    [
        ({"limit_gpus": 1}, {"gpu_count": 2}),
        ({"quota_gpus": 1, "borrows": False}, {"gpu_count": 2}),
        ({"quota_gpus": 0.5}, {"preemptible": False}),
        ({"limit_gpus": 0.5}, {"memory_bytes": 5 << 30}),
    ],
)
def test_request_beyond_a_limit_is_refused(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    quota: dict[str, Any],
    request_: dict[str, Any],
) -> None:
    add_node(gpus=2)
    created = client_of(cast.olga).post(
        "/api/v1/quotas", {"subject_kind": "project", "subject": "default", **quota}, format="json"
    )
    assert created.status_code == 201, body(created)
    refused = allocate(client_of(cast.alice), **request_)
    assert body(refused)["code"] == "unsatisfiable" and "project default" in body(refused)["detail"]


def test_larger_gpu_makes_a_request_in_bytes_fit_its_limit(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node("small", memory_bytes=8 << 30), add_node("large", memory_bytes=80 << 30)
    olga, alice = client_of(cast.olga), client_of(cast.alice)
    whole = {"subject_kind": "project", "subject": "default", "limit_gpus": 1.5}
    assert olga.post("/api/v1/quotas", whole, format="json").status_code == 201
    assert body(allocate(alice, percent=100))["state"] == "preparing"
    assert allocate(alice, memory_bytes=8 << 30).status_code == 202


def test_limit_below_the_quota_is_refused(cast: Cast, client_of: Clients) -> None:
    olga = client_of(cast.olga)
    subject = {"subject_kind": "project", "subject": "default"}
    wrong = {**subject, "quota_gpus": 5, "limit_gpus": 1}
    refused = olga.post("/api/v1/quotas", wrong, format="json")
    assert refused.status_code == 400 and "below the quota" in body(refused)["detail"]
    right = body(olga.post("/api/v1/quotas", {**subject, "quota_gpus": 5}, format="json"))
    changed = olga.patch(f"/api/v1/quotas/{right['id']}", {"limit_gpus": 4.9}, format="json")
    assert changed.status_code == 400
    changed = olga.patch(f"/api/v1/quotas/{right['id']}", {"limit_gpus": 5}, format="json")
    assert changed.status_code == 200


def request_reservation(client: Any, gpus: int, hours: tuple[int, int], **more: object) -> Any:
    request = {
        "name": "course",
        "pool": "default",
        "project": "default",
        "gpu_count": gpus,
        "starts_at": f"2099-01-01T{hours[0]:02}:00:00Z",
        "ends_at": f"2099-01-01T{hours[1]:02}:00:00Z",
        **more,
    }
    return client.post("/api/v1/reservations", request, format="json")


def reserve(client: Any, gpus: int, hours: tuple[int, int], **more: object) -> int:
    return int(request_reservation(client, gpus, hours, **more).status_code)


def test_reservations_may_overlap_within_the_registered_gpus_only(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node(gpus=3)
    olga = client_of(cast.olga)
    assert reserve(olga, 4, (8, 10)) == 409
    assert reserve(olga, 2, (8, 12)) == 201
    assert reserve(olga, 2, (10, 14)) == 409
    assert reserve(olga, 2, (12, 14)) == 201  # begins when the other one ends
    assert reserve(olga, 1, (6, 20)) == 201
    assert reserve(olga, 1, (13, 15), percent=10) == 409
    assert reserve(olga, 3, (20, 22)) == 201
    assert reserve(olga, 50, (8, 10), allow_pending=True) == 201


def test_reservation_without_room_for_a_context_is_refused_with_both_numbers(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node("measured", gpus=2), add_node("unmeasured")
    olga = client_of(cast.olga)
    Gpu.objects.filter(node__name="measured").update(context_bytes=415 << 20)
    assert reserve(olga, 1, (8, 10), percent=5) == 201
    refused = request_reservation(olga, 2, (10, 12), percent=5)
    assert (refused.status_code, body(refused)["code"]) == (409, "unsatisfiable")
    assert (
        "Requested 2 × 5 %, but pool default has 1 matching of 3 registered GPUs: 2 take 415 MiB "
        "for a CUDA context, and the request has 408 MiB (request at least 416 MiB)."
    ) in body(refused)["detail"]
    assert reserve(olga, 2, (10, 12), percent=6) == 201
    assert reserve(olga, 2, (12, 14), percent=5, allow_pending=True) == 201
