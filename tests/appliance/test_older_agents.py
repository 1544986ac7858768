"""Agents of an older release, which cannot resize allocations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from appliance.accounts.models import User
from appliance.fleet.reports import parse_inventory
from appliance.inventory.models import Gpu, Node
from appliance.inventory.reports import record_node_report
from nodes.protocol import fleet_pb2
from tests.appliance.conftest import GIB, Cast
from tests.appliance.test_inventory import report_of
from tests.appliance.test_resizing import Client, kinds

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]


@pytest.fixture
def alice(cast: Cast, client_of: Clients, add_node: AddNode) -> Client:
    return Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))


@pytest.mark.parametrize("change", [{"compute_mode": "capped"}, {"percent": 20}, {"percent": 90}])
def test_agent_that_cannot_resize_is_named_and_nothing_changes(
    alice: Client, change: dict[str, Any]
) -> None:
    pk = alice.allocate(percent=30)
    inventory = fleet_pb2.Inventory(agent_version="0.0.9")  # does not know the field `resizes`
    older = parse_inventory(fleet_pb2.AgentMessage(boot_id="boot", inventory=inventory))
    node = report_of(alice.node)
    older = replace(older, gpus=node.gpus, endpoints=node.endpoints)
    record_node_report(node_id=alice.node.pk, report=older)
    before, generation = alice.read(pk), Node.objects.get().generation
    refused = alice.resize(pk, 409, **change)
    assert refused["code"] == "not_supported"
    assert f"Node {alice.node.name} cannot resize" in refused["detail"]
    assert "Update its agent" in refused["detail"]
    (action,) = (a for a in before["actions"] if a["name"] == "resize")
    assert not action["allowed"] and "Update its agent" in action["reason"]
    assert alice.read(pk) == before and kinds(pk) == [] and Gpu.objects.get().taken_percent == 30
    assert Node.objects.get().generation == generation
    newer = replace(node, resizes_allocations=True)
    record_node_report(node_id=alice.node.pk, report=newer)
    alice.resize(pk, **change)
