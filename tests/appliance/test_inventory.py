"""Reports of nodes and GPUs, sites, notes and endpoints."""

from __future__ import annotations

import base64
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from appliance.accounts.models import User
from appliance.activity.models import Event
from appliance.inventory.endpoints import EndpointAddress, closed_endpoints, sort_endpoints
from appliance.inventory.models import Gpu, Node
from appliance.inventory.reports import ReportedGpu, ReportedNode, is_unchanged, record_node_report
from nodes.version import AGENT_VERSION
from tests.appliance.conftest import GIB, Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db


def report_of(node: Node, **changed: Any) -> ReportedNode:
    """Return the last report of the node with some values replaced."""
    gpus = tuple(
        ReportedGpu(g.uuid, g.index, g.model, g.memory_bytes, g.compute_capability)
        for g in node.gpus.order_by("index")
    )
    return replace(
        ReportedNode("1", "1", "test", True, "boot", (("127.0.0.1", 8445),), gpus), **changed
    )


def test_gpu_in_mig_mode_is_excluded_from_placement(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    (whole,) = report_of(node).gpus
    record_node_report(node_id=node.pk, report=report_of(node, gpus=(replace(whole, mig=True),)))
    queued = body(alice.post("/api/v1/allocations", {"percent": 50}, format="json"))
    assert queued["state"] == "queued" and "in MIG mode" in queued["waiting_reason"]
    assert [g["mig"] for g in body(alice.get("/api/v1/gpus?mig=true"))["items"]] == [True]
    record_node_report(node_id=node.pk, report=report_of(node))
    assert (
        body(alice.post("/api/v1/allocations", {"percent": 50}, format="json"))["state"]
        == "preparing"
    )
    assert Event.objects.filter(kind="gpu.mig").count() == 2


def test_links_between_gpus_are_updated(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    node, vera = add_node(gpus=2), client_of(cast.vera)
    first, second = report_of(node).gpus
    for way in ("NV4", "PHB"):
        pair = (replace(first, links=((1, way),)), replace(second, links=((0, way),)))
        record_node_report(node_id=node.pk, report=report_of(node, gpus=pair))
        assert {g["index"]: g["links"] for g in body(vera.get("/api/v1/gpus"))["items"]} == {
            0: {"1": way},
            1: {"0": way},
        }
        assert is_unchanged(node.pk, report_of(node, gpus=pair)) and not is_unchanged(
            node.pk, report_of(node, gpus=(first, second))
        )


def test_context_of_a_gpu_stays_known_until_its_agent_tells_another(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, vera = add_node(), client_of(cast.vera)
    (plain,) = report_of(node).gpus

    def told(context_bytes: int | None) -> int:
        gpus = (replace(plain, context_bytes=context_bytes),)
        record_node_report(node_id=node.pk, report=report_of(node, gpus=gpus))
        assert is_unchanged(node.pk, report_of(node, gpus=gpus))
        (shown,) = body(vera.get("/api/v1/gpus"))["items"]
        return int(shown["context_bytes"])

    assert [told(b) for b in (None, 415 << 20, None, 0)] == [0, 415 << 20, 415 << 20, 0]


@pytest.mark.parametrize(("beyond", "known"), [(-1, 8 * GIB - 1), (0, 0), (1 << 50, 0)])
def test_context_that_is_no_less_than_the_memory_is_not_known(
    add_node: AddNode, beyond: int, known: int
) -> None:
    node = add_node(memory_bytes=8 * GIB)
    (plain,) = report_of(node).gpus
    new = replace(plain, uuid=uuid4(), context_bytes=8 * GIB + beyond)
    gpus = (replace(plain, context_bytes=8 * GIB + beyond), new)
    record_node_report(node_id=node.pk, report=report_of(node, gpus=gpus))
    assert [g.context_bytes for g in node.gpus.all()] == [known, known]
    assert is_unchanged(node.pk, report_of(node, gpus=gpus))


def test_request_for_a_newer_cuda_version_is_queued(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    record_node_report(node_id=node.pk, report=report_of(node, cuda_version="12.4"))
    newer = {"percent": 10, "min_cuda_version": "13.0", "allow_pending": True}
    queued = body(alice.post("/api/v1/allocations", newer, format="json"))
    assert queued["state"] == "queued" and "for CUDA older than 13.0" in queued["waiting_reason"]
    assert (
        body(
            alice.post(
                "/api/v1/allocations", {"percent": 10, "min_cuda_version": "12.4"}, format="json"
            )
        )["state"]
        == "preparing"
    )
    assert body(alice.get(f"/api/v1/nodes/{node.pk}"))["cuda_version"] == "12.4"


def test_agent_of_another_version_is_marked_outdated(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    assert body(olga.get(f"/api/v1/nodes/{node.pk}"))["agent_outdated"], (
        "the agent of the fixture has version 1"
    )
    record_node_report(node_id=node.pk, report=report_of(node, agent_version=AGENT_VERSION))
    assert not body(olga.get(f"/api/v1/nodes/{node.pk}"))["agent_outdated"]


def test_site_filters_nodes_and_selects_them_for_requests(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    here, _ = add_node("here"), add_node("there")
    olga, alice = client_of(cast.olga), client_of(cast.alice)
    olga.post("/api/v1/sites", {"name": "oslo", "notes": "near the fjord"}, format="json")
    moved = body(
        olga.patch(f"/api/v1/nodes/{here.pk}", {"site": "oslo", "notes": "new fans"}, format="json")
    )
    assert (moved["site"], moved["notes"], moved["labels"]) == ("oslo", "new fans", {})
    assert [n["name"] for n in body(alice.get("/api/v1/nodes?site=oslo"))["items"]] == ["here"]
    assert {g["node"] for g in body(alice.get("/api/v1/gpus?site=oslo"))["items"]} == {"here"}
    placed = body(
        alice.post(
            "/api/v1/allocations", {"percent": 10, "selector": {"site": "oslo"}}, format="json"
        )
    )
    assert {p["node"] for p in placed["partitions"]} == {"here"}
    by_site = {
        r["name"]: r["gpus"]["capacity"]
        for r in body(alice.get("/api/v1/capacity?by=site"))["items"]
    }
    assert by_site == {"oslo": 1, "at no site": 1}


def test_site_is_renamed_for_requests_and_deleted_without_nodes(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    here, there = add_node("here"), add_node("there")
    olga, alice = client_of(cast.olga), client_of(cast.alice)
    site = body(olga.post("/api/v1/sites", {"name": "oslo"}, format="json"))
    assert olga.post("/api/v1/sites", {"name": "oslo"}, format="json").status_code == 409
    olga.patch(f"/api/v1/nodes/{here.pk}", {"site": "oslo"}, format="json")
    refused = olga.delete(f"/api/v1/sites/{site['id']}")
    assert refused.status_code == 409 and [b["name"] for b in body(refused)["blockers"]] == ["here"]
    assert (
        body(olga.patch(f"/api/v1/sites/{site['id']}", {"name": "bergen"}, format="json"))["name"]
        == "bergen"
    )
    in_oslo = {"percent": 10, "selector": {"site": "oslo"}, "allow_pending": True}
    assert body(alice.post("/api/v1/allocations", in_oslo, format="json"))["state"] == "queued"
    assert (
        body(
            alice.post(
                "/api/v1/allocations",
                {"percent": 10, "selector": {"site": "bergen"}},
                format="json",
            )
        )["state"]
        == "preparing"
    )
    assert (
        olga.patch(f"/api/v1/nodes/{there.pk}", {"site": "nowhere"}, format="json").status_code
        == 404
    )
    olga.patch(f"/api/v1/nodes/{here.pk}", {"site": ""}, format="json")
    assert olga.delete(f"/api/v1/sites/{site['id']}").status_code == 204


def test_notes_of_a_gpu_are_stored_and_limited_in_length(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    gpu, olga = Gpu.objects.get(node=add_node()), client_of(cast.olga)
    assert (
        body(olga.patch(f"/api/v1/gpus/{gpu.pk}", {"notes": "rattles"}, format="json"))["notes"]
        == "rattles"
    )
    assert body(client_of(cast.alice).get("/api/v1/gpus"))["items"][0]["notes"] == "rattles"
    assert (
        olga.patch(f"/api/v1/gpus/{gpu.pk}", {"notes": "x" * 2001}, format="json").status_code
        == 400
    )


def addresses(*pairs: tuple[str, str]) -> list[EndpointAddress]:
    return [EndpointAddress(address, 8445, network) for address, network in pairs]


@pytest.mark.parametrize(
    ("network", "client", "first"),
    [
        ("", "10.1.0.9", "10.1.0.5"),
        ("", "192.168.7.1", "192.168.7.5"),
        ("fabric", "192.168.7.1", "10.2.0.5"),
        ("", "fd00::9", "fd00::5"),
        ("", "", "gpu1.example.org"),
        ("unknown", "10.2.0.1", "10.2.0.5"),
    ],
)
def test_endpoints_are_sorted_by_network_then_by_common_prefix(
    network: str, client: str, first: str
) -> None:
    given = addresses(
        ("gpu1.example.org", "default"),
        ("192.168.7.5", "default"),
        ("10.1.0.5", "default"),
        ("10.2.0.5", "fabric"),
        ("fd00::5", "default"),
    )
    found = sort_endpoints(given, network=network, client_address=client)
    assert found[0].address == first and sorted(found) == sorted(given)


def test_tickets_list_endpoints_of_the_pool_network_first(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga, alice = add_node(), client_of(cast.olga), client_of(cast.alice)
    addresses = (("10.1.0.5", 8445), ("10.2.0.5", 8445))
    record_node_report(node_id=node.pk, report=report_of(node, endpoints=addresses))
    unknown = {"networks": {"10.9.9.9": "fabric"}}
    refused = olga.patch(f"/api/v1/nodes/{node.pk}", unknown, format="json")
    assert refused.status_code == 400
    shown = body(
        olga.patch(f"/api/v1/nodes/{node.pk}", {"networks": {"10.2.0.5": "fabric"}}, format="json")
    )
    assert [e["network"] for e in shown["endpoints"]] == ["default", "fabric"]
    pool = next(p for p in body(olga.get("/api/v1/pools"))["items"] if p["name"] == "default")
    assert (
        body(olga.patch(f"/api/v1/pools/{pool['id']}", {"network": "fabric"}, format="json"))[
            "network"
        ]
        == "fabric"
    )
    record_node_report(
        node_id=node.pk, report=report_of(node, endpoints=(*addresses, ("10.3.0.5", 8445)))
    )
    allocation = body(alice.post("/api/v1/allocations", {"percent": 10}, format="json"))
    applied(node)
    key = base64.b64encode(bytes(32)).decode()
    (ticket,) = body(
        alice.post(
            f"/api/v1/allocations/{allocation['id']}/tickets",
            {"client_public_key": key},
            format="json",
        )
    )["tickets"]
    assert [(e["address"], e["network"]) for e in ticket["endpoints"]] == [
        ("10.2.0.5", "fabric"),
        ("10.1.0.5", "default"),
        ("10.3.0.5", "default"),
    ]


def test_closed_endpoints_are_reported(add_node: AddNode) -> None:
    node = add_node()
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = listening.getsockname()[1], closed.getsockname()[1]
        record_node_report(
            node_id=node.pk,
            report=report_of(node, endpoints=tuple(("127.0.0.1", port) for port in ports)),
        )
        assert closed_endpoints(node) == [f"127.0.0.1:{ports[1]}"]
