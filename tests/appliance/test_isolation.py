"""Isolation of sessions: levels of nodes, requirements of pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.activity.models import Event
from appliance.allocations import scheduler
from appliance.fleet.desired_state import build_desired_state
from appliance.inventory.models import Node
from appliance.inventory.reports import record_node_report
from appliance.pools.isolation import LAYERS, IsolationLevel, level_of, missing_of
from appliance.pools.models import Pool
from nodes.host_access import HOST_MEMORY
from nodes.launcher_control import ISOLATION_MEASURES
from tests.appliance.conftest import Cast, body
from tests.appliance.test_inventory import report_of

Clients = Callable[..., Any]
AddNode = Callable[..., Node]
ALLOCATIONS = "/api/v1/allocations"


def report(node: Node, level: IsolationLevel | None) -> None:
    layers = () if level is None else LAYERS[level]
    report_layers(node, level, missing_of(layers))


def report_layers(node: Node, level: IsolationLevel | None, missing: list[str]) -> None:
    changed = report_of(node, isolation=level, missing_layers=tuple(missing))
    record_node_report(node_id=node.pk, report=changed)


def require(olga: Any, level: str) -> None:
    path = f"/api/v1/pools/{Pool.objects.get().pk}"
    changed = body(olga.patch(path, {"required_isolation": level}, format="json"))
    assert changed["required_isolation"] == level


def request(client: Any) -> dict[str, Any]:
    found: dict[str, Any] = body(client.post(ALLOCATIONS, {"percent": 10}, format="json"))
    return found


@pytest.mark.parametrize("level", IsolationLevel)
def test_level_needs_all_of_its_layers(level: IsolationLevel) -> None:
    layers = LAYERS[level]
    assert layers <= {*ISOLATION_MEASURES, HOST_MEMORY}, "agents report other names"
    assert level_of(layers) == level_of([*layers, "unknown"]) == level
    for missing in layers:
        assert LAYERS[level_of(layers - {missing})] < layers


def test_pool_places_nothing_on_nodes_below_its_level_and_says_why(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node, olga, alice = add_node(), client_of(cast.olga), client_of(cast.alice)
    report(node, IsolationLevel.PROCESS)
    require(olga, "namespaces")
    queued = request(alice)
    assert queued["state"] == "queued"
    assert (
        "node node has isolation process, and the pool requires namespaces"
        in queued["waiting_reason"]
    )
    report(node, IsolationLevel.NAMESPACES)
    scheduler.run_tick()
    assert body(alice.get(f"{ALLOCATIONS}/{queued['id']}"))["state"] == "preparing"


@pytest.mark.parametrize("level", list(IsolationLevel)[1:])
def test_node_whose_kernels_address_session_servers_is_refused_with_that_reason(
    cast: Cast, client_of: Clients, add_node: AddNode, level: IsolationLevel
) -> None:
    node, olga, alice = add_node(), client_of(cast.olga), client_of(cast.alice)
    layers = LAYERS[IsolationLevel.FULL] - {HOST_MEMORY}
    report_layers(node, level_of(layers), missing_of(layers))
    require(olga, level)
    queued = request(alice)
    assert queued["state"] == "queued"
    assert (
        f"the pool requires {level}; not in force: host_memory (kernels can address the memory of"
        " session servers)"
    ) in queued["waiting_reason"]
    require(olga, "any")
    scheduler.run_tick()
    assert body(alice.get(f"{ALLOCATIONS}/{queued['id']}"))["state"] == "preparing"


def test_lower_requirement_lets_waiting_allocations_start(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    add_node()
    olga, alice = client_of(cast.olga), client_of(cast.alice)
    require(olga, "full")
    queued = request(alice)
    assert queued["state"] == "queued"
    require(olga, "any")
    scheduler.run_tick()
    assert body(alice.get(f"{ALLOCATIONS}/{queued['id']}"))["state"] == "preparing"


def test_launcher_is_told_the_layers_that_the_pool_requires(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    report(node, IsolationLevel.FULL)
    require(client_of(cast.olga), "process")
    request(client_of(cast.alice))
    (grant,) = build_desired_state(node.pk).grants
    assert set(grant.required_isolation) == LAYERS[IsolationLevel.PROCESS]


def test_change_of_the_level_makes_an_event(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    node = add_node()
    report(node, IsolationLevel.NAMESPACES)
    report(node, IsolationLevel.PROCESS)
    report(node, None)
    events = list(Event.objects.filter(kind__startswith="node.isolation").order_by("pk"))
    assert [e.kind for e in events] == ["node.isolation_rose", "node.isolation_fell"]
    assert "file_system, network, processes not in force" in events[1].message
    shown = body(client_of(cast.vera).get(f"/api/v1/nodes/{node.pk}"))
    assert shown["isolation"] == "process", "an unknown level changes nothing"


def test_unknown_level_is_rejected(cast: Cast, client_of: Clients, add_node: AddNode) -> None:
    add_node()
    path = f"/api/v1/pools/{Pool.objects.get().pk}"
    changed = client_of(cast.olga).patch(path, {"required_isolation": "total"}, format="json")
    assert changed.status_code == 400
