"""The largest number of programs of an allocation, from the CUDA contexts that nodes report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.db import change_log
from appliance.db.change_log import Change, Topic
from appliance.inventory.models import Node
from appliance.inventory.reports import record_node_report
from tests.appliance.commands_in_process import BusbarOf
from tests.appliance.conftest import Cast, body
from tests.appliance.test_inventory import report_of

Clients = Callable[[User | None], Any]
URL = "/api/v1/allocations"
MIB = 1 << 20
pytestmark = pytest.mark.django_db(transaction=True, databases=list(settings.DATABASES))


@pytest.fixture
def node(add_node: Callable[..., Node]) -> Node:
    return add_node(name="n1", gpus=2)


@pytest.fixture
def alice(cast: Cast, client_of: Clients) -> Any:
    return client_of(cast.alice)


def report_contexts(node: Node, *context_bytes: int) -> int:
    """Report the contexts of the GPUs of the node. Return the work, in rows."""
    reported = report_of(node)
    gpus = [replace(g, context_bytes=n) for g, n in zip(reported.gpus, context_bytes, strict=True)]
    return record_node_report(node_id=node.pk, report=replace(reported, gpus=tuple(gpus)))


@pytest.mark.parametrize(
    ("context_bytes", "fitting"),
    [
        ((0, 0), None),
        ((500 * MIB, 0), 4),
        ((500 * MIB, 700 * MIB), 2),
        ((MIB, 2 * MIB), 256),
        ((MIB, 2048 * MIB), 0),
        ((MIB, 2049 * MIB), 0),
    ],
)
def test_fewest_programs_of_its_partitions_fit_at_once(
    alice: Any, node: Node, context_bytes: tuple[int, int], fitting: int | None
) -> None:
    created = body(alice.post(URL, {"gpu_count": 2, "percent": 25}, format="json"))
    assert created["max_sessions"] is None, "no agent has told"
    report_contexts(node, *context_bytes)
    assert body(alice.get(f"{URL}/{created['id']}"))["max_sessions"] == fitting


def test_measured_context_announces_the_allocations_of_the_gpu(alice: Any, node: Node) -> None:
    created = body(alice.post(URL, {"percent": 25}, format="json"))
    announced: list[Change] = []
    unsubscribe = change_log.subscribe(announced.append, Topic.ALLOCATION)
    report_contexts(node, 500 * MIB, 500 * MIB)
    unsubscribe()
    assert [c.object_id for c in announced] == [UUID(created["id"])]


def test_announced_allocations_are_work_of_the_node(alice: Any, node: Node) -> None:
    idle = report_contexts(node, 500 * MIB, 500 * MIB)
    for _ in range(3):
        alice.post(URL, {"gpu_count": 2, "percent": 25}, format="json")
    assert report_contexts(node, 500 * MIB, 600 * MIB) == idle + 3
    assert report_contexts(node, 700 * MIB, 700 * MIB) == idle + 6


def test_commands_show_contexts_and_how_many_fit(
    alice: Any, cast: Cast, client_of: Clients, busbar_of: BusbarOf, node: Node
) -> None:
    report_contexts(node, 500 * MIB, 500 * MIB)
    created = body(alice.post(URL, {"percent": 25}, format="json"))
    busbar = busbar_of(client_of(cast.olga))
    shown = [busbar("gpu", "show", "n1/0").out, busbar("allocation", "show", created["id"]).out]
    lines = [" ".join(line.split()) for sheet in shown for line in sheet.splitlines()]
    assert "Context 500.00 MiB" in lines and "Max sessions 4" in lines
