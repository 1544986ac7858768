"""Decisions at the exact limit. A period includes its begin and excludes its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from appliance.allocations import eviction, idleness, leases
from appliance.allocations.models import Allocation
from appliance.allocations.placement import Request
from appliance.allocations.queue import BACKFILL_LIMIT
from appliance.allocations.snapshot import Entitlement, Start, WaitingRule
from appliance.inventory.models import Node
from appliance.pools.models import Pool
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import AllocationSettings
from tests.appliance.conftest import GIB, Cast, applied, body
from tests.appliance.test_placement import gpu
from tests.appliance.test_queue import (
    BLUE,
    NOW,
    RED,
    RESERVED,
    decide,
    pending,
    project,
    rule,
    running,
    snapshot,
)

AddNode = Callable[..., Node]
Clients = Callable[..., Any]
MOMENT = timedelta(microseconds=1)
STAYS = pending(1, Request(1, 50), preemptible=False)


@pytest.mark.parametrize(
    ("now", "is_kept"),
    [
        (RESERVED.starts_at - MOMENT, False),
        (RESERVED.starts_at, True),
        (RESERVED.ends_at - MOMENT, True),
        (RESERVED.ends_at, False),
    ],
)
def test_reservation_keeps_and_reclaims_gpus_from_its_begin_until_its_end(
    now: datetime, is_kept: bool
) -> None:
    state = replace(snapshot([gpu(1)], reservations=[RESERVED]), now=now)
    other = decide(state, replace(STAYS, preemptible=True))[1]
    assert rule(other) is (WaitingRule.RESERVATION if is_kept else None)
    full = snapshot([gpu(1)], [running(8, [gpu(1)], Request(1, 100))], reservations=[RESERVED])
    own = pending(1, Request(1, 100), RED, reservation_id=RESERVED.id)
    victims = WaitingRule.RECLAIM if is_kept else WaitingRule.CAPACITY
    assert rule(decide(replace(full, now=now), own)[1]) is victims


@pytest.mark.parametrize(("beyond", "starts"), [(timedelta(0), True), (MOMENT, False)])
def test_request_that_ends_with_the_begin_of_a_reservation_starts(
    beyond: timedelta, starts: bool
) -> None:
    state = snapshot([gpu(1)], reservations=[RESERVED])
    brief = replace(STAYS, lifetime=RESERVED.starts_at - NOW + beyond)
    assert isinstance(decide(state, brief)[1], Start) is starts


@pytest.mark.parametrize(("beyond", "starts"), [(timedelta(0), True), (MOMENT, False)])
def test_allocation_that_ends_with_the_begin_of_a_reservation_leaves_its_gpu_to_it(
    beyond: timedelta, starts: bool
) -> None:
    gpus, end = [gpu(1), gpu(2)], RESERVED.starts_at + beyond
    held = running(8, gpus, Request(1, 100), preemptible=False, ends_at=end)
    state = snapshot(gpus, [held], reservations=[RESERVED])
    assert isinstance(decide(state, STAYS)[1], Start) is starts


@pytest.mark.parametrize(
    ("quota", "outcome"), [(99, WaitingRule.RECLAIM), (100, WaitingRule.CAPACITY)]
)
def test_project_that_uses_exactly_its_quota_gives_nothing_back(
    quota: int, outcome: WaitingRule
) -> None:
    entitlements = {
        project(RED): Entitlement("red", quota_percent=100),
        project(BLUE): Entitlement("blue", quota_percent=quota),
    }
    used = running(8, [gpu(1)], Request(1, 100), BLUE)
    state = snapshot([gpu(1)], [used], entitlements)
    assert rule(decide(state, pending(1, Request(1, 100), RED))[1]) is outcome


@pytest.mark.parametrize(("longer", "passes"), [(timedelta(0), True), (MOMENT, False)])
def test_small_request_passes_a_large_one_until_the_limit_of_its_wait(
    longer: timedelta, passes: bool
) -> None:
    gpus = [gpu(1), gpu(2)]
    used = running(9, gpus, Request(1, 50), preemptible=False)
    large = pending(1, Request(2, 100), created_at=NOW - BACKFILL_LIMIT - longer)
    small = pending(2, Request(1, 30), BLUE)
    assert isinstance(decide(snapshot(gpus, [used]), large, small)[2], Start) is passes


@pytest.fixture
def held(cast: Cast, client_of: Clients, add_node: AddNode) -> Allocation:
    node = add_node()
    made = client_of(cast.alice).post("/api/v1/allocations", {"percent": 5}, format="json")
    applied(node)
    return Allocation.objects.get(pk=body(made)["id"])


@pytest.mark.parametrize("size", [{"percent": 100}, {"memory_bytes": 8 * GIB}])
def test_resize_to_the_whole_gpu_waits_for_it(
    cast: Cast, client_of: Clients, held: Allocation, size: dict[str, int]
) -> None:
    client = client_of(cast.alice)
    client.post("/api/v1/allocations", {"percent": 5}, format="json")
    path = f"/api/v1/allocations/{held.pk}"
    asked = client.patch(path, size, format="json")
    assert (asked.status_code, body(asked)["resize"]["state"]) == (202, "queued")


def is_evicted(allocation: Allocation) -> bool:
    eviction.evict_expired()
    allocation.refresh_from_db()
    return allocation.state == "releasing"


@pytest.mark.parametrize("limit", ["notice", "lifetime"])
def test_allocation_ends_at_its_end(
    held: Allocation, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    now = timezone.now() + timedelta(hours=1)
    monkeypatch.setattr(timezone, "now", lambda: now)

    def set_end(end: datetime) -> None:
        columns: dict[str, Any] = {"evict_at": end}
        if limit == "lifetime":
            columns = {"lifetime_seconds": 600, "active_at": end - timedelta(seconds=600)}
        Allocation.objects.filter(pk=held.pk).update(**columns)

    set_end(now + MOMENT)
    assert not is_evicted(held)
    set_end(now)
    assert is_evicted(held)


def test_lease_lasts_for_all_of_its_time(held: Allocation, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = current(AllocationSettings).hold_seconds
    monkeypatch.setattr(leases, "seconds_since_renewal", lambda _: seconds)
    assert not is_evicted(held)
    monkeypatch.setattr(leases, "seconds_since_renewal", lambda _: seconds + 0.1)
    assert is_evicted(held)


def test_idle_limit_includes_its_last_second(
    held: Allocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    Pool.objects.update(max_idle_seconds=60)
    monkeypatch.setattr(idleness, "idle_seconds", lambda _: 60.0)
    assert not is_evicted(held) and held.evict_at is None
    monkeypatch.setattr(idleness, "idle_seconds", lambda _: 60.1)
    assert not is_evicted(held) and held.evict_at is not None
