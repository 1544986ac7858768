"""The granted size of a resize that waits, and the withdrawal by a resize to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import User
from appliance.activity.models import Task
from appliance.inventory.models import Gpu, Node
from tests.appliance.conftest import GIB, Cast
from tests.appliance.test_resizing import Client, kinds, report

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]


@pytest.mark.parametrize(
    "size",
    [
        {"percent": 30, "memory_bytes": 0},
        {"percent": 0, "memory_bytes": 3 * GIB},
        {"percent": 30, "memory_bytes": GIB},
    ],
    ids=["percent", "memory", "both"],
)
def test_granted_size_withdraws_a_resize_on_gpus_of_different_memory(
    cast: Cast, client_of: Clients, add_node: AddNode, size: dict[str, int]
) -> None:
    node = add_node(gpus=2, memory_bytes=10 * GIB)
    Gpu.objects.filter(index=1).update(memory_bytes=20 * GIB)
    alice = Client(client_of(cast.alice), node)
    asked = {name: value for name, value in size.items() if value}
    pk, _ = alice.allocate(gpu_count=2, **asked), alice.allocate(gpu_count=2, percent=60)
    waiting = alice.resize(pk, percent=90, memory_bytes=0)["resize"]
    assert waiting["state"] == "queued"
    assert waiting["granted_size"] == size | {"compute_mode": "shared"}
    before = alice.read(pk)["partitions"]
    withdrawn = alice.resize(pk, **waiting["granted_size"])
    assert withdrawn["resize"] is None and withdrawn["partitions"] == before


def test_shrink_that_goes_on_after_a_withdrawal_keeps_a_task(
    cast: Cast, client_of: Clients, add_node: AddNode
) -> None:
    alice = Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))
    pk, _ = alice.allocate(percent=60), alice.allocate(percent=40)
    alice.resize(pk, percent=40)
    report(alice.node, {pk: [5 * GIB]})
    waiting = alice.resize(pk, percent=80)["resize"]
    assert alice.resize(pk, **waiting["granted_size"])["resize"]["state"] == "shrinking"
    running = Task.objects.get(kind="allocation.resize", state="running")
    report(alice.node)
    assert Task.objects.get(pk=running.pk).state == "succeeded"
    expected = ["resize_finished", "resize_requested", "resize_requested", "resize_withdrawn"]
    assert sorted(kinds(pk)) == [*expected, "resized"]
