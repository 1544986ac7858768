"""Who starts now, and which rule holds the others back. Pure: rows in, decisions out."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from appliance.allocations.claims import (
    Book,
    PoolRooms,
    Reservation,
    Rule,
    Start,
    Subject,
    Wait,
    Waiter,
    without,
)
from appliance.allocations.limits import over_limit
from appliance.allocations.placement import Placed, Waiting, place
from appliance.allocations.reclaim import reclaim
from appliance.pools.subject_kind import SubjectKind

HOLD_ROOM_AFTER = timedelta(minutes=10)
"""A request that is first in its pool for so long lets nobody behind it take GPUs that would suit it: large ones starve otherwise."""


def decide(book: Book, waiting: Sequence[Waiter]) -> Iterator[tuple[UUID, Start | Wait]]:
    """Each request with its outcome, the most deserving first. A started one takes its room and its quota from those behind it."""
    first: dict[UUID, Waiter] = {}
    heap = [(standing(book, w), w) for w in waiting]
    heapq.heapify(heap)
    while heap:
        before, waiter = heapq.heappop(heap)
        now = standing(book, waiter)
        if (
            now > before
        ):  # its project got something meanwhile; it is never less deserving of its turn than that
            heapq.heappush(heap, (now, waiter))
            continue
        outcome = attempt(book, waiter, first)
        if isinstance(outcome, Start):
            if heap:
                book.take(waiter, outcome)
        else:
            for victim in outcome.evictions:
                book.holders[victim] = replace(book.holders[victim], leaving=True)
            if outcome.rule in (Rule.ROOM, Rule.RECLAIM):
                for pool_id in waiter.pools:
                    first.setdefault(pool_id, waiter)
        yield waiter.allocation_id, outcome


def standing(book: Book, waiter: Waiter) -> tuple[float, ...]:
    """Smaller goes first: what is within its project's quota, then priority, then who has had least of what is due to it, then who came first."""
    project = Subject(SubjectKind.PROJECT, waiter.project_id)
    weight = book.entitlements[project].weight if project in book.entitlements else 1.0
    share = (book.use[project] + book.past.get(waiter.project_id, 0.0)) / max(weight, 0.001)
    return (
        not book.within_quota(waiter),
        -waiter.priority,
        share,
        waiter.created_at.timestamp(),
        waiter.allocation_id.int,
    )


def attempt(book: Book, waiter: Waiter, first: Mapping[UUID, Waiter]) -> Start | Wait:
    refused: Wait | None = None
    for pool_id in waiter.pools:
        pool = book.pools.get(pool_id)
        if pool is None:
            continue
        outcome = attempt_in(book, waiter, pool_id, pool, first.get(pool_id))
        if isinstance(outcome, Start):
            return outcome
        refused = refused or outcome
    if refused is None:
        return Wait(Rule.ROOM, "Its pool is gone; release it and ask for another pool.")
    if refused.rule is Rule.ROOM and (made := reclaim(book, waiter)):
        return made
    return refused


def attempt_in(
    book: Book, waiter: Waiter, pool_id: UUID, pool: PoolRooms, first: Waiter | None
) -> Start | Wait:
    if known := book.no_room.get((pool_id, waiter.request)):
        return Wait(Rule.ROOM, known)
    outcome = place(pool.rooms, waiter.request, pool.policies)
    if isinstance(outcome, Waiting):
        book.no_room[(pool_id, waiter.request)] = outcome.reason
        return Wait(Rule.ROOM, outcome.reason)
    if held_back := over_limit(book, waiter, outcome):
        return held_back
    if (
        first is not None
        and book.now - first.created_at > HOLD_ROOM_AFTER
        and not waiter.reservation_id
        and blocks(pool, first, outcome)
    ):
        return Wait(
            Rule.AHEAD,
            f"{first.request} is first in pool {pool.name} and has waited for {waited(book.now - first.created_at)}; what suits it is kept for it.",
        )
    for reservation in book.reservations:
        if held_back := reserved(book, waiter, pool_id, outcome, reservation):
            return held_back
    return Start(pool_id, outcome)


def waited(time: timedelta) -> str:
    return f"{int(time.total_seconds()) // 60} minutes"


def blocks(pool: PoolRooms, first: Waiter, placed: Placed) -> bool:
    """Whether it takes a GPU that the first one could use, when empty."""
    taken = {s.gpu_id for s in placed.shares}
    empty = [
        replace(g, free_percent=100, free_memory_bytes=g.memory_bytes, usable=True)
        for g in pool.rooms
        if g.gpu_id in taken
    ]
    return isinstance(
        place(empty, replace(first.request, gpu_count=1, same_node=False), pool.policies), Placed
    )


def reserved(
    book: Book, waiter: Waiter, pool_id: UUID, placed: Placed, r: Reservation
) -> Wait | None:
    """What would still be there when the reservation begins must be free then. Preemptible work may run until it does."""
    mine = r.id == waiter.reservation_id
    if mine or r.pool_id != pool_id or book.now >= r.ends_at:
        return None
    ends = book.now + waiter.ends_after if waiter.ends_after else None
    begun = book.now >= r.starts_at
    if not begun and (waiter.preemptible or (ends is not None and ends <= r.starts_at)):
        return None
    rooms = without(book.pools[pool_id].rooms, placed.shares)
    gone = [
        h
        for h in book.holders.values()
        if h.pool_id == pool_id
        and (h.leaving or h.preemptible or (h.ends_at is not None and h.ends_at <= r.starts_at))
        and h.reservation_id != r.id
    ]
    rest = replace(r.request, gpu_count=r.request.gpu_count - book.held_under(r))
    if rest.gpu_count <= 0 or rest.gpu_count > len(
        rooms
    ):  # it has all, or the pool could never give it: nobody waits for that
        return None
    if not begun:
        rooms = without(rooms, (s for h in gone for s in h.shares), sign=-1)
    if isinstance(place(rooms, rest, book.pools[pool_id].policies), Placed):
        return None
    window = f"from {r.starts_at:%Y-%m-%d %H:%M} to {r.ends_at:%Y-%m-%d %H:%M} UTC"
    return Wait(
        Rule.RESERVATION,
        f"{r.request} are kept for the reservation {r.name} {window}. Preemptible or shorter work may start before.",
    )
