"""Who makes room for a request that has a claim to it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from appliance.allocations.claims import (
    Book,
    Holder,
    PoolRooms,
    Rule,
    Subject,
    Wait,
    Waiter,
    without,
)
from appliance.allocations.limits import over_limit
from appliance.allocations.placement import GpuRoom, Placed, Request, place
from appliance.pools.subject_kind import SubjectKind


def reclaim(book: Book, waiter: Waiter) -> Wait | None:
    """Room that is being made already, or the fewest allocations whose end would make it."""
    for pool_id in waiter.pools:
        pool = book.pools.get(pool_id)
        if pool is None:
            continue
        leaving = [h for h in book.holders.values() if h.leaving and h.pool_id == pool_id]
        rooms = without(pool.rooms, (s for h in leaving for s in h.shares), sign=-1)
        if leaving and isinstance(place(rooms, waiter.request, pool.policies), Placed):
            return Wait(
                Rule.RECLAIM,
                f"{len(leaving)} allocations are leaving pool {pool.name}; it starts when their nodes have let go.",
            )
        if chosen := victims(book, waiter, pool_id, rooms):
            return Wait(
                Rule.RECLAIM,
                f"{len(chosen)} preemptible allocations of pool {pool.name} were asked to leave for it.",
                tuple(h.allocation_id for h in chosen),
            )
    return None


def victims(book: Book, waiter: Waiter, pool_id: UUID, rooms: Sequence[GpuRoom]) -> list[Holder]:
    """The fewest that will do, the least deserving first. An empty list when it has no claim or it would not help."""
    pool, freed, chosen, after = (
        book.pools[pool_id],
        list(rooms),
        list[Holder](),
        replace(book, holders=book.holders.copy()),
    )
    there = [
        h
        for h in book.holders.values()
        if h.pool_id == pool_id and h.preemptible and not h.leaving and h.started_at < book.now
    ]
    for h in sorted(
        there, key=lambda h: (h.priority, -h.started_at.timestamp(), h.allocation_id.int)
    ):
        if not yields(book, h, waiter, chosen):
            continue
        freed = without(freed, h.shares, sign=-1)
        chosen.append(h)
        outcome = place(freed, waiter.request, pool.policies)
        after.holders.take_out(h.allocation_id)
        if isinstance(outcome, Placed) and not over_limit(after, waiter, outcome):
            return needed(chosen, freed, waiter.request, pool)
    return []


def yields(book: Book, holder: Holder, waiter: Waiter, chosen: Sequence[Holder]) -> bool:
    """Its own project's less important work yields to a request; another's, when that borrows and the request is within its own quota."""
    if holder.project_id == waiter.project_id:
        return holder.priority < waiter.priority
    if book.reserved_now(waiter):
        return holder.reservation_id is None  # it could start only because it can be asked to leave
    if not book.within_quota(waiter):
        return False
    theirs = book.entitlements.get(Subject(SubjectKind.PROJECT, holder.project_id))
    owed = theirs.quota_percent or 0 if theirs else 0
    going = sum(
        h.percent
        for h in (*chosen, *(h for h in book.holders.values() if h.leaving))
        if h.project_id == holder.project_id
    )
    return book.use[Subject(SubjectKind.PROJECT, holder.project_id)] - going > owed


def needed(
    chosen: Sequence[Holder], freed: Sequence[GpuRoom], request: Request, pool: PoolRooms
) -> list[Holder]:
    """Those without whom it would not fit; the most deserving are spared first."""
    kept, rooms = list(chosen), list(freed)
    for h in reversed(chosen):
        again = without(rooms, h.shares)
        if isinstance(place(again, request, pool.policies), Placed):
            rooms = again
            kept.remove(h)
    return kept
