"""Time from request to active allocation, by service class."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from appliance.accounts.models import User
from appliance.allocations import time_to_gpu
from appliance.allocations.models import Allocation
from appliance.inventory.models import Node
from tests.appliance.conftest import Cast, applied, body

Clients = Callable[[User | None], Any]
WAITS = st.lists(st.tuples(st.integers(0, 200), st.floats(0, 1e6)), max_size=60)


@given(WAITS, WAITS)
def test_each_request_counts_in_one_class_and_quantiles_are_ordered_values(
    started: list[tuple[int, float]], queued: list[tuple[int, float]]
) -> None:
    found = time_to_gpu.compute_statistics(started, queued)
    assert sum(f.count for f in found) == len(started) and sum(f.queued for f in found) == len(
        queued
    )
    for f in found:
        mine = [s for p, s in started if time_to_gpu.service_class(p) is f.service_class]
        assert (f.p50_seconds is None) == (not mine)
        if f.p50_seconds is not None and f.p90_seconds is not None and f.p99_seconds is not None:
            assert (
                f.p50_seconds <= f.p90_seconds <= f.p99_seconds <= max(mine)
                and f.p50_seconds in mine
            )
            assert sum(s <= f.p90_seconds for s in mine) >= 0.9 * len(mine)


def test_quantiles_of_the_numbers_to_100() -> None:
    hundred = [(50, float(s)) for s in range(1, 101)]
    _, normal, _ = time_to_gpu.compute_statistics(hundred, [(50, 7.0), (60, 9.0)])
    assert (
        normal.p50_seconds,
        normal.p90_seconds,
        normal.p99_seconds,
        normal.within_target_share,
    ) == (50.0, 90.0, 99.0, 0.6)
    assert (normal.queued, normal.longest_queued_seconds) == (2, 9.0)


def add_active(client: Any, node: Node, priority: int, seconds: int) -> None:
    """Add an allocation that became active this long after its request."""
    wanted = {"percent": 5, "priority": priority}
    made = body(client.post("/api/v1/allocations", wanted, format="json"))
    applied(node)
    row = Allocation.objects.get(pk=made["id"])
    assert row.active_at is not None
    created_at = row.active_at - timedelta(seconds=seconds)
    Allocation.objects.filter(pk=row.pk).update(created_at=created_at)


@pytest.mark.django_db
def test_time_is_measured_from_request_to_activation_in_visible_projects(
    cast: Cast, client_of: Clients, add_node: Callable[..., Node]
) -> None:
    node, alice = add_node(), client_of(cast.alice)
    for priority, seconds in ((50, 30), (50, 90), (80, 3), (10, 500)):
        add_active(alice, node, priority, seconds)
    many = {"gpu_count": 16, "allow_pending": True}
    alice.post("/api/v1/allocations", many, format="json")
    interactive, normal, background = body(alice.get("/api/v1/time-to-gpu"))["items"]
    assert (
        interactive["count"],
        interactive["p99_seconds"],
        interactive["within_target_share"],
    ) == (1, 3.0, 1.0)
    assert (
        normal["count"],
        normal["p50_seconds"],
        normal["p90_seconds"],
        normal["within_target_share"],
        normal["queued"],
    ) == (2, 30.0, 90.0, 0.5, 1)
    assert (
        background["count"],
        background["target_seconds"],
        background["within_target_share"],
    ) == (1, None, None)
    assert all(
        i["count"] == 0 and i["queued"] == 0
        for i in body(client_of(cast.charlie).get("/api/v1/time-to-gpu"))["items"]
    )
    assert client_of(cast.charlie).get("/api/v1/time-to-gpu?project=default").status_code == 404
    later = (timezone.now() + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    assert all(
        i["count"] == 0
        for i in body(
            client_of(cast.olga).get(
                f"/api/v1/time-to-gpu?since={later}&until={later}&project=default"
            )
        )["items"]
    )
