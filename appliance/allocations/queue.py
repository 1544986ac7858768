"""Scheduling decisions: which queued requests start, and which rule holds the others back.

Pure functions on a `SchedulerSnapshot`.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from appliance.allocations.feasibility import unused_part
from appliance.allocations.limits import check_limits, check_readable
from appliance.allocations.placement import GpuCapacity, NoPlacement, Placement, Share, place
from appliance.allocations.reclaim import reclaim
from appliance.allocations.snapshot import (
    PendingAllocation,
    PoolCapacity,
    Reservation,
    SchedulerSnapshot,
    Start,
    Subject,
    Wait,
    WaitingRule,
    add_shares,
    subtract_shares,
)
from appliance.pools.subject_kind import SubjectKind

BACKFILL_LIMIT = timedelta(minutes=10)
"""Age of a pool's first request from which on later ones must not take GPUs that match it.

Otherwise small requests starve large ones.
"""


def decide(
    snapshot: SchedulerSnapshot,
    queued: Sequence[PendingAllocation],
    failed: Container[UUID] = (),
) -> Iterator[tuple[UUID, Start | Wait]]:
    """Yield a decision for each request, highest priority first.

    A started request reduces capacity and quota for the later ones. The caller adds those whose
    start failed to `failed` before it asks for the next decision.
    """
    first: dict[UUID, PendingAllocation] = {}
    heap = [(priority_key(snapshot, p), p) for p in queued]
    heapq.heapify(heap)
    while heap:
        before, pending = heapq.heappop(heap)
        now = priority_key(snapshot, pending)
        if now > before:  # a start of its project lowered its priority; keys never decrease
            heapq.heappush(heap, (now, pending))
            continue
        decision = try_pools(snapshot, pending, first)
        if isinstance(decision, Wait):
            for victim in decision.evictions:
                snapshot.active[victim] = replace(snapshot.active[victim], leaving=True)
            if decision.rule in (WaitingRule.CAPACITY, WaitingRule.RECLAIM):
                for pool_id in pending.pools:
                    first.setdefault(pool_id, pending)
        yield pending.allocation_id, decision
        if isinstance(decision, Start) and heap and pending.allocation_id not in failed:
            snapshot.start(pending, decision)


def priority_key(snapshot: SchedulerSnapshot, pending: PendingAllocation) -> tuple[float, ...]:
    """Return the sort key of a request; smaller starts first.

    The order is: within quota, priority, least weighted use of the project, age.
    """
    project = Subject(SubjectKind.PROJECT, pending.project_id)
    entitlement = snapshot.entitlements.get(project)
    weight = entitlement.weight if entitlement else 1.0
    past_use = snapshot.past_use.get(pending.project_id, 0.0)
    share = (snapshot.use[project] + past_use) / max(weight, 0.001)
    return (
        not snapshot.within_quota(pending),
        -pending.priority,
        share,
        pending.created_at.timestamp(),
        pending.allocation_id.int,
    )


def try_pools(
    snapshot: SchedulerSnapshot,
    pending: PendingAllocation,
    first: Mapping[UUID, PendingAllocation],
) -> Start | Wait:
    """Try the pools of a request in order; reclaim capacity if none has enough.

    `first` maps each pool to its first waiting request.
    """
    refusal: Wait | None = None
    for pool_id in pending.pools:
        pool = snapshot.pools.get(pool_id)
        if pool is None:
            continue
        decision = try_pool(snapshot, pending, pool_id, pool, first.get(pool_id))
        if isinstance(decision, Start):
            return decision
        refusal = refusal or decision
    if refusal is None:
        return Wait(
            WaitingRule.CAPACITY,
            "The pool was deleted. Release the allocation and request another pool.",
        )
    if refusal.rule is WaitingRule.CAPACITY and (wait := reclaim(snapshot, pending)):
        return wait
    return refusal


def try_pool(
    snapshot: SchedulerSnapshot,
    pending: PendingAllocation,
    pool_id: UUID,
    pool: PoolCapacity,
    first: PendingAllocation | None,
) -> Start | Wait:
    """Place a request in one pool and check limits, order and reservations."""
    if wait := check_readable(snapshot, pending, pool):
        return wait
    key = (pool_id, pending.request, pending.growth)
    if reason := snapshot.failed_placements.get(key):
        return Wait(WaitingRule.CAPACITY, reason)
    outcome = pending.place(pool.gpus, pool.policies)
    if isinstance(outcome, NoPlacement):
        snapshot.failed_placements[key] = outcome.reason
        return Wait(WaitingRule.CAPACITY, outcome.reason)
    if wait := check_limits(snapshot, pending, outcome):
        return wait
    if first is not None and (wait := check_order(snapshot, pending, pool, first, outcome)):
        return wait
    for reservation in snapshot.reservations:
        if wait := check_reservation(snapshot, pending, pool_id, outcome, reservation):
            return wait
    return Start(pool_id, outcome)


def check_order(
    snapshot: SchedulerSnapshot,
    pending: PendingAllocation,
    pool: PoolCapacity,
    first: PendingAllocation,
    placement: Placement,
) -> Wait | None:
    """Return a wait if the placement takes GPUs that are kept for the pool's first request."""
    age = snapshot.now - first.created_at
    if age <= BACKFILL_LIMIT or pending.reservation_id or not blocks(pool, first, placement):
        return None
    what = "resize to" if first.growth else "request for"
    return Wait(
        WaitingRule.AHEAD,
        f"A {what} {first.request} is first in pool {pool.name} and has waited for "
        f"{format_minutes(age)}. GPUs that match it are kept for it.",
    )


def format_minutes(duration: timedelta) -> str:
    minutes = int(duration.total_seconds()) // 60
    return f"{minutes} minute" + ("" if minutes == 1 else "s")


def blocks(pool: PoolCapacity, first: PendingAllocation, placement: Placement) -> bool:
    """Return whether the placement uses a GPU that the first request could use when empty."""
    taken = {s.gpu_id for s in placement.shares}
    if first.growth:
        return any(s.gpu_id in taken for s in first.growth)
    empty = [
        replace(g, free_percent=100, free_memory_bytes=g.memory_bytes, usable=True)
        for g in pool.gpus
        if g.gpu_id in taken
    ]
    one_gpu = replace(first.request, gpu_count=1, same_node=False)
    return isinstance(place(empty, one_gpu, pool.policies), Placement)


def check_reservation(
    snapshot: SchedulerSnapshot,
    pending: PendingAllocation,
    pool_id: UUID,
    placement: Placement,
    r: Reservation,
) -> Wait | None:
    """Return a wait if the placement leaves too few GPUs for a reservation.

    Preemptible and short allocations may run until the reservation starts.
    """
    if r.id == pending.reservation_id or r.pool_id != pool_id or snapshot.now >= r.ends_at:
        return None
    ends_at = snapshot.now + pending.lifetime if pending.lifetime else None
    begun = snapshot.now >= r.starts_at
    if not begun and makes_room(r, pending.preemptible, ends_at):
        return None
    if r.request is None:
        return Wait(
            WaitingRule.ERROR,
            "The appliance failed to read a reservation of the pool and tries again; see its log.",
        )
    pool = snapshot.pools[pool_id]
    gpus = subtract_shares(pool.gpus, placement.shares)
    rest = unused_part(snapshot, r, r.request)
    if not rest.gpu_count:  # complete, or impossible here
        return None
    if not begun:
        gpus = add_shares(gpus, ended_shares(snapshot, r))
    if isinstance(place(gpus, rest, pool.policies), Placement):
        return None
    return Wait(
        WaitingRule.RESERVATION,
        f"{rest} are kept for a reservation from {r.starts_at:%Y-%m-%d %H:%M} to "
        f"{r.ends_at:%Y-%m-%d %H:%M} UTC. Preemptible or shorter allocations may start before."
        + describe_unusable(pool.gpus),
    )


def makes_room(r: Reservation, preemptible: bool, ends_at: datetime | None) -> bool:
    """Return whether an allocation with these values need not run when the reservation starts."""
    return preemptible or (ends_at is not None and ends_at <= r.starts_at)


def ended_shares(snapshot: SchedulerSnapshot, r: Reservation) -> Iterator[Share]:
    """Yield what allocations use now that need not run when the reservation starts."""
    for a in snapshot.active.values():
        if a.pool_id != r.pool_id or a.reservation_id == r.id:
            continue
        if a.leaving or makes_room(r, a.preemptible, a.ends_at):
            yield from a.shares


def describe_unusable(gpus: Sequence[GpuCapacity]) -> str:
    """Return a sentence on the GPUs that cannot serve a reservation, or an empty string."""
    reasons = [g.unusable_reason for g in gpus if not g.usable]
    if not reasons:
        return ""
    others = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f" Not usable: {reasons[0]}{others}."
