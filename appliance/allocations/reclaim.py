"""Choice of the allocations to evict for a request that is entitled to their capacity.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from appliance.allocations.limits import check_limits
from appliance.allocations.placement import GpuCapacity, Placement
from appliance.allocations.snapshot import (
    ActiveAllocation,
    PendingAllocation,
    PoolCapacity,
    SchedulerSnapshot,
    Subject,
    Wait,
    WaitingRule,
    add_shares,
    subtract_shares,
)
from appliance.pools.subject_kind import SubjectKind


def reclaim(snapshot: SchedulerSnapshot, pending: PendingAllocation) -> Wait | None:
    """Return a wait for evictions that are under way, or for new ones, or None."""
    for pool_id in pending.pools:
        pool = snapshot.pools.get(pool_id)
        if pool is None or pool.unreadable:
            continue
        leaving = [a for a in snapshot.active.values() if a.leaving and a.pool_id == pool_id]
        gpus = add_shares(pool.gpus, (s for a in leaving for s in a.shares))
        if leaving and isinstance(pending.place(gpus, pool.policies), Placement):
            return Wait(
                WaitingRule.RECLAIM,
                f"{count_allocations(len(leaving))} of pool {pool.name} will end. "
                "The request starts when their nodes have released the GPUs.",
            )
        if chosen := select_victims(snapshot, pending, pool_id, gpus):
            return Wait(
                WaitingRule.RECLAIM,
                f"{count_allocations(len(chosen), 'preemptible')} of pool {pool.name} "
                "will be evicted for the request.",
                tuple(a.allocation_id for a in chosen),
            )
    return None


def count_allocations(number: int, adjective: str = "") -> str:
    noun = "allocation" if number == 1 else "allocations"
    return " ".join(filter(None, (str(number), adjective, noun)))


def select_victims(
    snapshot: SchedulerSnapshot,
    pending: PendingAllocation,
    pool_id: UUID,
    gpus: Sequence[GpuCapacity],
) -> list[ActiveAllocation]:
    """Return the fewest allocations whose eviction lets the request start.

    Candidates with notice are taken first, so that a younger one does not move it. The others
    follow in order of priority, lowest first, then youngest first. The list is empty if the request
    has no claim or eviction would not suffice.
    """
    pool, freed, chosen = snapshot.pools[pool_id], list(gpus), list[ActiveAllocation]()
    after = replace(snapshot, active=snapshot.active.copy())
    candidates = [
        a
        for a in snapshot.active.values()
        if a.pool_id == pool_id
        and a.preemptible
        and not a.leaving
        and a.started_at < snapshot.now
        and a.allocation_id != pending.allocation_id
    ]
    for a in sorted(candidates, key=order_of_eviction):
        if not may_preempt(snapshot, pending, a, chosen):
            continue
        freed = add_shares(freed, a.shares)
        chosen.append(a)
        outcome = pending.place(freed, pool.policies)
        after.active.discard(a.allocation_id)
        if isinstance(outcome, Placement) and not check_limits(after, pending, outcome):
            return drop_unneeded(chosen, freed, pending, pool)
    return []


def order_of_eviction(a: ActiveAllocation) -> tuple[float, ...]:
    return (not a.noticed, a.priority, -a.started_at.timestamp(), a.allocation_id.int)


def may_preempt(
    snapshot: SchedulerSnapshot,
    pending: PendingAllocation,
    victim: ActiveAllocation,
    chosen: Sequence[ActiveAllocation],
) -> bool:
    """Return whether the request may preempt the allocation.

    In its own project, a request preempts allocations of lower priority. In another project, it
    preempts borrowed capacity if the request is within its own quota or an active reservation. What
    a project borrows is unknown while its quota cannot be read.
    """
    if victim.project_id == pending.project_id:
        return victim.priority < pending.priority
    if snapshot.within_reservation(pending):
        return victim.reservation_id is None
    if not snapshot.within_quota(pending):
        return False
    project = Subject(SubjectKind.PROJECT, victim.project_id)
    entitlement = snapshot.entitlements.get(project)
    if entitlement and entitlement.unreadable:
        return False
    quota = entitlement.quota_percent or 0 if entitlement else 0
    leaving = sum(
        a.percent
        for a in (*chosen, *(a for a in snapshot.active.values() if a.leaving))
        if a.project_id == victim.project_id
    )
    return snapshot.use[project] - leaving > quota


def drop_unneeded(
    chosen: Sequence[ActiveAllocation],
    freed: Sequence[GpuCapacity],
    pending: PendingAllocation,
    pool: PoolCapacity,
) -> list[ActiveAllocation]:
    """Return the victims without those that need not leave; the last chosen are spared first."""
    victims, gpus = list(chosen), list(freed)
    for a in reversed(chosen):
        occupied = subtract_shares(gpus, a.shares)
        if isinstance(pending.place(occupied, pool.policies), Placement):
            gpus = occupied
            victims.remove(a)
    return victims
