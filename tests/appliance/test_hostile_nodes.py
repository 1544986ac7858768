"""Nodes with a valid certificate whose reports aim at other nodes, projects and the scheduler."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.allocations import session_reports
from appliance.allocations.index import index
from appliance.allocations.models import Allocation, Session
from appliance.allocations.project_usage import record_project_usage
from appliance.allocations.sessions import series_id_of
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.inventory.models import Gpu, Node
from appliance.inventory.reports import ReportedGpu, ReportedNode, record_node_report
from appliance.telemetry import series
from nodes.protocol import limits
from tests.appliance.conftest import GIB, Cast, applied, body
from tests.appliance.test_allocations import session_of

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


OLD_DRIVER = {"percent": 5, "min_driver_version": "1"}


def report(node: Node, **changes: Any) -> None:
    """Report the GPU of the node again. Changes are of the node or of the GPU."""
    gpu = Gpu.objects.get(node=node)
    memory = changes.pop("memory_bytes", gpu.memory_bytes)
    reported = ReportedGpu(gpu.uuid, 0, "Test GPU", memory, "12.0")
    values: dict[str, Any] = {
        "agent_version": "1",
        "driver_version": "1",
        "operating_system": "test",
        "software": True,
        "boot_id": "boot",
        "endpoints": (("127.0.0.1", 8445),),
        "gpus": (reported,),
    }
    record_node_report(node_id=node.pk, report=ReportedNode(**(values | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"driver_version": "580.²"},
        {"driver_version": "①"},
        {"cuda_version": "12.³"},
        {"driver_version": "9" * 50},
        {"driver_version": "..."},
        {"memory_bytes": 0},
        {"memory_bytes": limits.MAX_GPU_MEMORY_BYTES},
    ],
    ids=str,
)
@pytest.mark.parametrize("refresh", ["change", "restart"])
def test_no_report_stops_the_scheduler(
    cast: Cast, client_of: Clients, add_node: AddNode, changes: dict[str, Any], refresh: str
) -> None:
    odd = add_node("odd")  # the older node, which placement tries first
    add_node("honest")
    report(odd, **changes)
    if refresh == "restart":
        index.reset()
    alice = client_of(cast.alice)
    for size in ({"percent": 10}, {"memory_bytes": 5 * GIB}, OLD_DRIVER):
        made = alice.post("/api/v1/allocations", size, format="json")
        assert made.status_code == 202, body(made)
    assert set(Allocation.objects.values_list("state", flat=True)) == {"preparing"}


def test_large_memory_of_many_gpus_does_not_stop_the_use_of_projects(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    for n in range(4):
        add_node(f"odd{n}", gpus=4, memory_bytes=limits.MAX_GPU_MEMORY_BYTES)
    request = {"gpu_count": 16, "percent": 100}
    assert (
        client_of(cast.alice).post("/api/v1/allocations", request, format="json").status_code < 300
    )
    assert Allocation.objects.get().state == "preparing"
    record_project_usage()


def test_session_names_no_samples_of_something_else(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    django_capture_on_commit_callbacks: Any,
) -> None:
    """A node chooses the ids of its sessions, also the id of a GPU of another node."""
    node, other = add_node("odd"), add_node("honest")
    client_of(cast.alice).post("/api/v1/allocations", {"percent": 10}, format="json")
    Node.objects.filter(pk=other.pk).update(state="cordoned")
    applied(node)
    allocation = Allocation.objects.get()
    node = Node.objects.get(gpus__partitions__allocation=allocation)
    foreign = Gpu.objects.exclude(node=node).get().pk
    series.record(("utilisation_percent",), {foreign: [50.0]}, 1000.0)
    ended: list[uuid.UUID] = []
    unsubscribe = change_log.subscribe(lambda c: ended.append(c.object_id), Topic.SERIES_END)
    try:
        claimed = session_of(str(allocation.pk), id=foreign.bytes, memory_bytes=7)
        session_reports.record_sessions(node_id=node.pk, reported=[claimed])
        assert series.latest_metrics(foreign) == {"utilisation_percent": 50.0}
        assert series.latest_metrics(series_id_of(foreign))["memory_bytes"] == 7.0
        shown = body(client_of(cast.alice).get(f"/api/v1/sessions/{foreign}"))
        assert shown["memory_bytes"] == 7
        history = body(client_of(cast.alice).get(f"/api/v1/sessions/{foreign}/metrics"))
        assert "utilisation_percent" not in {item["metric"] for item in history["items"]}
        with django_capture_on_commit_callbacks(execute=True):
            session_reports.record_sessions(node_id=node.pk, reported=[])
    finally:
        unsubscribe()
        series.end(foreign)
    assert Session.objects.get().state == "closed" and ended == [series_id_of(foreign)]


def test_latest_time_that_passes_the_gateway_is_a_date() -> None:
    assert datetime.fromtimestamp(limits.MAX_SECONDS, UTC).year < 9999
