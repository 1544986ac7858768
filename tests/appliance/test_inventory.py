"""What a node is made of, and what became of it behind our back."""

from __future__ import annotations

import base64
import socket
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from appliance.accounts.models import User
from appliance.activity.models import Event
from appliance.inventory.endpoints import Way, in_order, silent
from appliance.inventory.models import Gpu, Node
from appliance.inventory.services import ReportedGpu, ReportedNode, as_known, node_report
from nodes.version import AGENT_VERSION
from tests.appliance.conftest import GIB, Cast, applied, body

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db


def report_of(node: Node, **changed: Any) -> ReportedNode:
    """What it said last, and what is different now."""
    gpus = tuple(
        ReportedGpu(g.uuid, g.index, g.model, g.memory_bytes, g.compute_capability)
        for g in node.gpus.order_by("index")
    )
    return replace(
        ReportedNode("1", "1", "test", True, "boot", (("127.0.0.1", 8445),), gpus), **changed
    )


def test_a_gpu_that_was_cut_into_instances_gets_nothing_new_until_it_is_whole_again(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    (whole,) = report_of(node).gpus
    node_report(node_id=node.pk, report=report_of(node, gpus=(replace(whole, mig=True),)))
    waiting = body(alice.post("/api/v1/allocations", {"percent": 50}, format="json"))
    assert waiting["state"] == "waiting" and "in MIG mode" in waiting["waiting_reason"]
    assert [g["mig"] for g in body(alice.get("/api/v1/gpus?mig=true"))["items"]] == [True]
    node_report(node_id=node.pk, report=report_of(node))
    assert (
        body(alice.post("/api/v1/allocations", {"percent": 50}, format="json"))["state"]
        == "preparing"
    )
    assert Event.objects.filter(kind="gpu.mig").count() == 2


def test_how_gpus_reach_each_other_is_shown_and_kept_up_to_date(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, vera = add_node(gpus=2), client_of(cast.vera)
    first, second = report_of(node).gpus
    for way in ("NV4", "PHB"):
        pair = (replace(first, links=((1, way),)), replace(second, links=((0, way),)))
        node_report(node_id=node.pk, report=report_of(node, gpus=pair))
        assert {g["index"]: g["links"] for g in body(vera.get("/api/v1/gpus"))["items"]} == {
            0: {"1": way},
            1: {"0": way},
        }
        assert as_known(node.pk, report_of(node, gpus=pair)) and not as_known(
            node.pk, report_of(node, gpus=(first, second))
        )


def test_a_gpu_that_was_replaced_is_gone_and_the_new_one_is_there(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    (old,) = report_of(node).gpus
    node_report(
        node_id=node.pk,
        report=report_of(node, gpus=(replace(old, uuid=uuid.uuid4(), memory_bytes=16 * GIB),)),
    )
    shown = {g["uuid"]: g for g in body(client_of(cast.olga).get("/api/v1/gpus"))["items"]}
    assert not shown[str(old.uuid)]["present"] and len(shown) == 2
    assert set(
        Event.objects.filter(object_id__in=[g["id"] for g in shown.values()]).values_list(
            "kind", flat=True
        )
    ) == {"gpu.found", "gpu.gone"}
    node_report(node_id=node.pk, report=report_of(node, gpus=(old,)))
    assert (
        Gpu.objects.get(uuid=old.uuid).present
        and Event.objects.filter(kind="gpu.returned").count() == 1
    )


def test_a_request_may_ask_for_a_cuda_version(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    node_report(node_id=node.pk, report=report_of(node, cuda_version="12.4"))
    waiting = body(
        alice.post(
            "/api/v1/allocations", {"percent": 10, "min_cuda_version": "13.0"}, format="json"
        )
    )
    assert waiting["state"] == "waiting" and "for CUDA older than 13.0" in waiting["waiting_reason"]
    assert (
        body(
            alice.post(
                "/api/v1/allocations", {"percent": 10, "min_cuda_version": "12.4"}, format="json"
            )
        )["state"]
        == "preparing"
    )
    assert body(alice.get(f"/api/v1/nodes/{node.pk}"))["cuda_version"] == "12.4"


def test_an_agent_of_another_release_is_shown(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga = add_node(), client_of(cast.olga)
    assert body(olga.get(f"/api/v1/nodes/{node.pk}"))["agent_outdated"], (
        "the fixture's agent says 1"
    )
    node_report(node_id=node.pk, report=report_of(node, agent_version=AGENT_VERSION))
    assert not body(olga.get(f"/api/v1/nodes/{node.pk}"))["agent_outdated"]


def test_a_site_is_where_nodes_stand_and_requests_can_ask_for_it(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    here, there, olga, alice = (
        add_node("here"),
        add_node("there"),
        client_of(cast.olga),
        client_of(cast.alice),
    )
    site = body(
        olga.post("/api/v1/sites", {"name": "oslo", "notes": "near the fjord"}, format="json")
    )
    assert olga.post("/api/v1/sites", {"name": "oslo"}, format="json").status_code == 409
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
    refused = olga.delete(f"/api/v1/sites/{site['id']}")
    assert refused.status_code == 409 and [b["name"] for b in body(refused)["blockers"]] == ["here"]
    assert (
        body(olga.patch(f"/api/v1/sites/{site['id']}", {"name": "bergen"}, format="json"))["name"]
        == "bergen"
    )
    assert (
        body(
            alice.post(
                "/api/v1/allocations", {"percent": 10, "selector": {"site": "oslo"}}, format="json"
            )
        )["state"]
        == "waiting"
    )
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


def test_notes_stay_on_a_gpu(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
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


def ways(*given: tuple[str, str]) -> list[Way]:
    return [Way(address, 8445, network) for address, network in given]


@pytest.mark.parametrize(
    ("network", "client", "first"),
    [
        ("", "10.1.0.9", "10.1.0.5"), ("", "192.168.7.1", "192.168.7.5"), ("fabric", "192.168.7.1", "10.2.0.5"), ("", "fd00::9", "fd00::5"),
        ("", "", "gpu1.example.org"), ("unknown", "10.2.0.1", "10.2.0.5"),
    ],
)  # fmt: skip
def test_the_pools_network_comes_first_and_then_what_is_near(
    network: str, client: str, first: str
) -> None:
    given = ways(
        ("gpu1.example.org", "default"),
        ("192.168.7.5", "default"),
        ("10.1.0.5", "default"),
        ("10.2.0.5", "fabric"),
        ("fd00::5", "default"),
    )
    found = in_order(given, network=network, client_address=client)
    assert found[0].address == first and sorted(found) == sorted(given)


def test_a_pools_network_decides_what_its_tickets_try_first_and_a_restart_keeps_the_names(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga, alice = add_node(), client_of(cast.olga), client_of(cast.alice)
    addresses = (("10.1.0.5", 8445), ("10.2.0.5", 8445))
    node_report(node_id=node.pk, report=report_of(node, endpoints=addresses))
    assert (
        olga.patch(
            f"/api/v1/nodes/{node.pk}", {"networks": {"10.9.9.9": "fabric"}}, format="json"
        ).status_code
        == 400
    )
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
    node_report(node_id=node.pk, report=report_of(node, endpoints=(*addresses, ("10.3.0.5", 8445))))
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


def test_addresses_where_nobody_answers_are_named(add_node: AddNode) -> None:
    node = add_node()
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = listening.getsockname()[1], closed.getsockname()[1]
        node_report(
            node_id=node.pk,
            report=report_of(node, endpoints=tuple(("127.0.0.1", port) for port in ports)),
        )
        assert silent(node) == [f"127.0.0.1:{ports[1]}"]
