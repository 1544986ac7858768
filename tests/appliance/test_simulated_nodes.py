"""Simulated nodes: marked for good, and in pools of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from appliance.allocations import scheduler
from appliance.allocations.models import Allocation
from appliance.fleet.enrolment import redeem, token_create
from appliance.inventory.models import Gpu, Node
from appliance.inventory.reports import ReportedGpu, record_node_report
from appliance.pools.models import Pool
from appliance.pools.services import create_pool
from appliance.telemetry import reachability
from nodes.enrolment import NewKeys, Token
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.test_inventory import report_of

Clients = Callable[..., Any]
AddNode = Callable[..., Node]


def enrol(name: str, *, simulated: bool) -> Node:
    token = Token.parse(token_create(user=None, simulated=simulated)[1])
    response = redeem(secret=token.secret, hostname=name, **NewKeys().requests())
    return Node.objects.get(pk=response["node_id"])


@pytest.fixture
def demo_pool(cast: Cast) -> Pool:
    return create_pool(values={"name": "demo"}, actor="test", simulated=True)


@pytest.fixture
def simulated(demo_pool: Pool, add_node: AddNode) -> Node:
    """A simulated node with one GPU, beside a real one."""
    real, node = add_node(), enrol("demo-01", simulated=True)
    gpu = ReportedGpu(uuid.uuid4(), 0, "Big GPU", 80 * GIB, "9.0")
    record_node_report(node_id=node.pk, report=report_of(real, gpus=(gpu,)))
    reachability.record_heartbeat(node.pk)
    return node


def test_token_decides_whether_a_node_is_simulated(cast: Cast) -> None:
    assert enrol("demo-01", simulated=True).simulated
    assert not enrol("gpu-01", simulated=False).simulated


def test_node_gpu_and_pool_show_that_they_are_simulated(
    simulated: Node, cast: Cast, client_of: Clients
) -> None:
    olga = client_of(cast.olga)
    for path, name in (("nodes", "name"), ("gpus", "node"), ("pools", "name")):
        rows = body(olga.get(f"/api/v1/{path}"))["items"]
        marked = {row[name] for row in rows if row["simulated"]}
        assert marked == {"demo" if path == "pools" else "demo-01"} and len(rows) == 2


def test_gpus_join_the_simulated_pool_and_cannot_leave_for_another(
    simulated: Node, cast: Cast, client_of: Clients
) -> None:
    gpu, olga = Gpu.objects.get(node=simulated), client_of(cast.olga)
    assert gpu.pool is not None and gpu.pool.name == "demo"
    path = f"/api/v1/gpus/{gpu.pk}"
    refused = olga.patch(path, {"pool": "default"}, format="json")
    assert refused.status_code == 400 and "real GPUs only" in refused.json()["detail"]
    assert body(olga.patch(path, {"pool": ""}, format="json"))["pool"] is None
    assert body(olga.patch(path, {"pool": "demo"}, format="json"))["pool"] == "demo"


def test_real_gpu_cannot_join_a_simulated_pool(
    demo_pool: Pool, add_node: AddNode, cast: Cast, client_of: Clients
) -> None:
    gpu, olga = Gpu.objects.get(node=add_node()), client_of(cast.olga)
    path = f"/api/v1/gpus/{gpu.pk}"
    assert olga.patch(path, {"pool": "demo"}, format="json").status_code == 400
    Gpu.objects.filter(pk=gpu.pk).update(pool=None, held=True)
    assert olga.post(f"{path}/admit", {"pool": "demo"}, format="json").status_code == 400
    assert body(olga.post(f"{path}/admit", {}, format="json"))["pool"] == "default"


@pytest.mark.parametrize(("pool", "fallback"), [("default", "demo"), ("demo", "default")])
def test_pool_and_fallback_are_both_simulated_or_both_real(
    demo_pool: Pool, cast: Cast, client_of: Clients, pool: str, fallback: str
) -> None:
    path = f"/api/v1/pools/{Pool.objects.get(name=pool).pk}"
    refused = client_of(cast.olga).patch(path, {"fallbacks": [fallback]}, format="json")
    assert refused.status_code == 400 and "simulated GPUs" in refused.json()["detail"]


def test_request_without_a_pool_gets_no_simulated_gpu(
    simulated: Node, cast: Cast, client_of: Clients
) -> None:
    alice = client_of(cast.alice)
    request: dict[str, object] = {"memory_bytes": 40 * GIB, "allow_pending": True}
    allocation = body(alice.post("/api/v1/allocations", request, format="json"))
    scheduler.run_tick()
    assert Allocation.objects.get(pk=allocation["id"]).state == "queued"
    request["pool"] = "demo"
    allocation = body(alice.post("/api/v1/allocations", request, format="json"))
    scheduler.run_tick()
    assert Allocation.objects.get(pk=allocation["id"]).state == "preparing"
