"""GPUs that a node reports after its enrolment: held until an operator or a rule admits them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from appliance.activity.models import Event
from appliance.allocations import scheduler
from appliance.inventory import gpu_admission
from appliance.inventory.models import Gpu, Node
from appliance.inventory.reports import ReportedGpu, create_node, record_node_report
from appliance.pools.models import Pool
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.test_inventory import report_of

Clients = Callable[..., Any]
AddNode = Callable[..., Node]


def new_gpu(index: int = 1) -> ReportedGpu:
    return ReportedGpu(uuid.uuid4(), index, "Test GPU", 8 * GIB, "12.0")


def report(node: Node, *gpus: ReportedGpu) -> None:
    record_node_report(node_id=node.pk, report=report_of(node, gpus=gpus))


def test_replaced_gpu_is_marked_missing_and_the_new_one_held_until_admitted(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    (old,) = report_of(node).gpus
    report(node, replace(old, uuid=uuid.uuid4()))
    shown = {g["uuid"]: g for g in body(olga.get("/api/v1/gpus"))["items"]}
    assert not shown[str(old.uuid)]["present"] and len(shown) == 2
    (held,) = body(olga.get("/api/v1/gpus?held=true"))["items"]
    assert held["uuid"] != str(old.uuid) and held["pool"] is None
    allocate = {"percent": 10}
    url = "/api/v1/allocations"
    assert body(client_of(cast.alice).post(url, allocate, format="json"))["state"] == "queued"
    assert client_of(cast.alice).post(f"/api/v1/gpus/{held['id']}/admit").status_code == 403
    admitted = body(olga.post(f"/api/v1/gpus/{held['id']}/admit", {}, format="json"))
    assert admitted["pool"] == "default" and not admitted["held"]
    assert olga.post(f"/api/v1/gpus/{held['id']}/admit", {}, format="json").status_code == 200
    scheduler.run_tick()
    assert body(client_of(cast.alice).get(url))["items"][0]["state"] == "preparing"
    kinds = list(Event.objects.filter(kind__startswith="gpu.").values_list("kind", flat=True))
    assert sorted(kinds) == ["gpu.admitted", "gpu.found", "gpu.gone", "gpu.held"]
    report(node, old)
    assert Gpu.objects.get(uuid=old.uuid).present
    assert Event.objects.filter(kind="gpu.returned").count() == 1


def test_held_gpu_can_be_admitted_to_another_pool(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    body(olga.post("/api/v1/pools", {"name": "lab"}, format="json"))
    first, second = new_gpu(1), new_gpu(2)
    report(node, *report_of(node).gpus, first, second)
    path = f"/api/v1/gpus/{Gpu.objects.get(uuid=first.uuid).pk}"
    assert body(olga.post(f"{path}/admit", {"pool": "lab"}, format="json"))["pool"] == "lab"
    assert olga.post(f"{path}/admit", {"pool": "none"}, format="json").status_code == 404
    path = f"/api/v1/gpus/{Gpu.objects.get(uuid=second.uuid).pk}"
    moved = body(olga.patch(path, {"pool": "lab"}, format="json"))
    assert moved["pool"] == "lab" and not moved["held"], "a move by an operator admits as well"


def test_rule_of_the_default_pool_admits_new_gpus(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    path = f"/api/v1/pools/{Pool.objects.get().pk}"
    assert body(olga.patch(path, {"admit_new_gpus": True}, format="json"))["admit_new_gpus"]
    added = new_gpu()
    report(node, *report_of(node).gpus, added)
    gpu = Gpu.objects.get(uuid=added.uuid)
    assert gpu.pool is not None and not gpu.held


def test_held_gpu_that_disappears_leaves_no_row(cast: Cast, add_node: AddNode) -> None:
    node = add_node()
    real = report_of(node).gpus
    for _ in range(5):
        report(node, *real, *(new_gpu(n) for n in range(1, 64)))
    assert Gpu.objects.filter(node=node).count() == 64
    report(node, *real)
    assert list(Gpu.objects.filter(node=node).values_list("uuid", flat=True)) == [real[0].uuid]
    assert Event.objects.filter(kind="gpu.held").count() == 5, "one event for each report"


def test_rule_admits_a_limited_number_of_gpus(
    cast: Cast, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_admission, "MAX_ADMITTED_GPUS", 3)
    node = add_node()
    Pool.objects.update(admit_new_gpus=True)
    for _ in range(6):
        report(node, new_gpu())
    assert Gpu.objects.filter(node=node, held=False).count() == 3


def test_first_gpus_after_an_enrolment_are_admitted_once(cast: Cast, add_node: AddNode) -> None:
    node = create_node(name="late")
    report(node)
    first = new_gpu(0)
    report(node, first)
    assert Gpu.objects.get(uuid=first.uuid).pool is not None, "its driver was loaded later"
    Node.objects.filter(pk=node.pk).update(expects_gpus=True)  # as a new enrolment does
    report(node, first)
    second = new_gpu(1)
    report(node, first, second)
    assert Gpu.objects.get(uuid=second.uuid).held
