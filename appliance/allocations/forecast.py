"""Forecast of the start of a queued request, and alternatives that would start at once.

Pure functions.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from appliance.allocations.placement import ComputeMode
from appliance.allocations.queue import priority_key, try_pool
from appliance.allocations.snapshot import (
    PendingAllocation,
    SchedulerSnapshot,
    Start,
    add_shares,
)

MAX_ALTERNATIVES = 3
MAX_SIMULATED_ENDS = 500
"""Ends of allocations that are simulated before the forecast gives up."""
SMALLER_PERCENTS = (90, 75, 50, 25, 10)


@dataclass(frozen=True, slots=True)
class Alternative:
    """A variation of a request that would start now."""

    pending: PendingAllocation
    pool_id: UUID
    pool: str
    """Name of the pool."""
    difference: str


def expected_start(
    snapshot: SchedulerSnapshot, queued: Sequence[PendingAllocation], allocation_id: UUID
) -> datetime | None:
    """Simulate known ends and earlier starts until the request starts.

    Returns None if the request depends on allocations without a known end.
    """
    snapshot = replace(snapshot, pools=dict(snapshot.pools), active=snapshot.active.copy())
    remaining = sorted(queued, key=lambda p: priority_key(snapshot, p))
    ends = [(a.ends_at, i.int, i) for i, a in snapshot.active.items() if a.ends_at]
    heapq.heapify(ends)
    for _ in range(MAX_SIMULATED_ENDS):
        for pending in list(remaining):
            start = try_start(snapshot, pending)
            if start is None:
                continue
            if pending.allocation_id == allocation_id:
                return snapshot.now
            remaining.remove(pending)
            snapshot.start(pending, start)
            if pending.growth:  # its end is in the list
                continue
            if (ends_at := snapshot.active[pending.allocation_id].ends_at) is not None:
                heapq.heappush(ends, (ends_at, pending.allocation_id.int, pending.allocation_id))
        if not ends:
            return None
        at, _, ended_id = heapq.heappop(ends)
        if ended_id == allocation_id:  # before it could grow
            return None
        remaining = [p for p in remaining if p.allocation_id != ended_id]
        ended = snapshot.active[ended_id]
        snapshot.active.discard(ended_id)
        pool = snapshot.pools[ended.pool_id]
        snapshot.pools[ended.pool_id] = replace(pool, gpus=add_shares(pool.gpus, ended.shares))
        snapshot = replace(snapshot, now=max(at, snapshot.now))
    return None


def reason_without_start(
    snapshot: SchedulerSnapshot, queued: Sequence[PendingAllocation], allocation_id: UUID
) -> str:
    """Return why `expected_start` returns None."""
    own, active = snapshot.active.get(allocation_id), snapshot.active.copy()
    if own is not None and own.ends_at is not None:
        active[allocation_id] = replace(own, ends_at=None)
        if expected_start(replace(snapshot, active=active), queued, allocation_id):
            return "not before it ends itself"
    if sum(a.ends_at is not None for a in active.values()) >= MAX_SIMULATED_ENDS:
        return f"not before the next {MAX_SIMULATED_ENDS} end"
    return "the known end times do not suffice"


def try_start(snapshot: SchedulerSnapshot, pending: PendingAllocation) -> Start | None:
    """Return the start in the first pool that can take the request, without reclaiming."""
    for pool_id in pending.pools:
        if pool_id in snapshot.pools:
            decision = try_pool(snapshot, pending, pool_id, snapshot.pools[pool_id], None)
            if isinstance(decision, Start):
                return decision
    return None


def alternatives(snapshot: SchedulerSnapshot, pending: PendingAllocation) -> list[Alternative]:
    """Return up to `MAX_ALTERNATIVES` variations that would start now, smallest change first."""
    found: list[Alternative] = []
    for changed, difference in variations(snapshot, pending):
        if start := try_start(snapshot, changed):
            pool = snapshot.pools[start.pool_id].name
            found.append(Alternative(changed, start.pool_id, pool, difference))
        if len(found) == MAX_ALTERNATIVES:
            break
    return found


def variations(
    snapshot: SchedulerSnapshot, pending: PendingAllocation
) -> Iterator[tuple[PendingAllocation, str]]:
    """Yield variations of a request with a description of the difference.

    An allocation that waits to grow stays on its GPUs.
    """
    if pending.growth:
        return
    r = pending.request
    if r.same_node and r.gpu_count > 1:
        yield replace(pending, request=replace(r, same_node=False)), "on several nodes"
    if not pending.preemptible:
        yield replace(pending, preemptible=True), "preemptible"
    for pool_id, pool in snapshot.pools.items():
        if pool_id not in pending.pools:
            yield replace(pending, pools=(pool_id,)), f"from pool {pool.name}"
    if r.model or r.labels:
        relaxed = replace(pending, request=replace(r, model="", labels=()))
        yield relaxed, "on any model" if r.model else "without labels"
    yield from smaller_shares(pending)
    for count in range(r.gpu_count - 1, 0, -1):
        fewer = replace(pending, request=replace(r, gpu_count=count))
        yield fewer, f"{count} GPU" + ("" if count == 1 else "s")


def smaller_shares(pending: PendingAllocation) -> Iterator[tuple[PendingAllocation, str]]:
    """Yield variations with a smaller share of each GPU, largest first."""
    r = pending.request
    percents: Sequence[int] = ()
    if r.compute_mode is ComputeMode.EXCLUSIVE:
        percents = SMALLER_PERCENTS[1:]
    elif r.memory_bytes == 0:
        smaller = {r.percent * part // 100 for part in SMALLER_PERCENTS} - {0, r.percent}
        percents = sorted(smaller, reverse=True)
    for percent in percents:
        mode = ComputeMode.SHARED if r.compute_mode is ComputeMode.EXCLUSIVE else r.compute_mode
        smaller_request = replace(r, compute_mode=mode, percent=percent)
        yield replace(pending, request=smaller_request), f"{percent} % of each GPU"
