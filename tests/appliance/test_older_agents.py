"""Agents of an older release, which cannot resize allocations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from appliance.accounts.models import User
from appliance.allocations.scheduler import run_tick
from appliance.fleet.reports import parse_inventory
from appliance.inventory.models import Gpu, Node
from appliance.inventory.reports import record_node_report
from nodes.protocol import fleet_pb2
from tests.appliance.commands_in_process import BusbarOf
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.test_inventory import report_of
from tests.appliance.test_resizing import URL, Client, kinds, report

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]


@pytest.fixture
def alice(cast: Cast, client_of: Clients, add_node: AddNode) -> Client:
    return Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))


def report_older_agent(node: Node) -> None:
    inventory = fleet_pb2.Inventory(agent_version="0.0.9")  # does not know the field `resizes`
    older = parse_inventory(fleet_pb2.AgentMessage(boot_id="boot", inventory=inventory))
    present = report_of(node)
    older = replace(older, gpus=present.gpus, endpoints=present.endpoints)
    record_node_report(node_id=node.pk, report=older)


def report_newer_agent(node: Node) -> None:
    newer = replace(report_of(node), resizes_allocations=True)
    record_node_report(node_id=node.pk, report=newer)


def test_resize_that_waits_is_granted_by_newer_agents_only(alice: Client) -> None:
    pk, neighbour = alice.allocate(percent=30), alice.allocate(percent=50)
    alice.resize(pk, compute_mode="exclusive")
    report_older_agent(alice.node)
    alice.client.delete(f"{URL}/{neighbour}")
    report(alice.node)
    run_tick()
    assert alice.read(pk)["granted_compute_mode"] == "shared"
    report_newer_agent(alice.node)
    run_tick()
    assert alice.read(pk)["granted_compute_mode"] == "exclusive"


def test_resize_that_waits_names_the_older_agent_and_can_be_withdrawn(alice: Client) -> None:
    pk, _ = alice.allocate(percent=30), alice.allocate(percent=50)
    assert "other allocations end" in alice.resize(pk, percent=60)["waiting_reason"]
    report_older_agent(alice.node)
    run_tick()
    waiting = alice.read(pk)
    assert waiting["resize"]["reason"] == (
        f"Node {alice.node.name} cannot resize allocations. Update its agent and launcher."
    )
    explained = body(alice.client.get(f"{URL}/{pk}/explanation"))
    assert explained["reason"] == waiting["waiting_reason"]
    assert explained["expected_start_at"] is None
    assert alice.resize(pk, 409, percent=20)["code"] == "not_supported"
    assert alice.resize(pk, 409, percent=30, compute_mode="capped")["code"] == "not_supported"
    assert alice.read(pk) == waiting
    alice.resize(pk, percent=30)
    report(alice.node)
    withdrawn = alice.read(pk)
    assert withdrawn["resize"] is None and withdrawn["waiting_reason"] == ""
    assert alice.granted(pk) == (30, 3 * GIB)


@pytest.mark.parametrize("change", [{"compute_mode": "capped"}, {"percent": 20}, {"percent": 90}])
def test_agent_that_cannot_resize_is_named_and_nothing_changes(
    alice: Client, change: dict[str, Any]
) -> None:
    pk = alice.allocate(percent=30)
    report_older_agent(alice.node)
    before, generation = alice.read(pk), Node.objects.get().generation
    refused = alice.resize(pk, 409, **change)
    assert refused["code"] == "not_supported"
    assert f"Node {alice.node.name} cannot resize" in refused["detail"]
    assert "Update its agent" in refused["detail"]
    (action,) = (a for a in before["actions"] if a["name"] == "resize")
    assert not action["allowed"] and "Update its agent" in action["reason"]
    assert alice.read(pk) == before and kinds(pk) == [] and Gpu.objects.get().taken_percent == 30
    assert Node.objects.get().generation == generation
    report_newer_agent(alice.node)
    alice.resize(pk, **change)


def test_command_names_the_agent_that_cannot_resize(alice: Client, busbar_of: BusbarOf) -> None:
    pk = alice.allocate(percent=30)
    report_older_agent(alice.node)
    done = busbar_of(alice.client)("resize", pk, "-p", "20")
    assert done.status != 0 and f"Node {alice.node.name} cannot resize allocations" in done.err
    assert "Update its agent and launcher" in done.err and alice.granted(pk) == (30, 3 * GIB)
