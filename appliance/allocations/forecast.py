"""When a waiting request is expected to start, and what would start at once instead. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from appliance.allocations.claims import Book, Start, Waiter, without
from appliance.allocations.placement import ComputeMode
from appliance.allocations.queue import attempt_in, standing

MOST_ALTERNATIVES = 3
MOST_ENDS = 500
"""Looked at before a forecast gives up."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """The same request but for one thing; it would start now."""

    waiter: Waiter
    pool_id: UUID
    difference: str


def expected_start(book: Book, waiting: Sequence[Waiter], allocation_id: UUID) -> datetime | None:
    """When what is known to end has ended and everybody ahead has started. None: nobody's end that it needs is known."""
    book = replace(book, pools=dict(book.pools), holders=book.holders.copy())
    left = sorted(waiting, key=lambda w: standing(book, w))
    ends = [(h.ends_at, i.int, i) for i, h in book.holders.items() if h.ends_at]
    heapq.heapify(ends)
    for _ in range(MOST_ENDS):
        for w in list(left):
            start = next(
                (
                    o
                    for p in w.pools
                    if p in book.pools
                    and isinstance(o := attempt_in(book, w, p, book.pools[p], None), Start)
                ),
                None,
            )
            if start is None:
                continue
            if w.allocation_id == allocation_id:
                return book.now
            left.remove(w)
            book.take(w, start)
            if (ends_at := book.holders[w.allocation_id].ends_at) is not None:
                heapq.heappush(ends, (ends_at, w.allocation_id.int, w.allocation_id))
        if not ends:
            return None
        at, _, gone = heapq.heappop(ends)
        holder = book.holders[gone]
        book.holders.take_out(gone)
        pool = book.pools[holder.pool_id]
        book.pools[holder.pool_id] = replace(
            pool, rooms=without(pool.rooms, holder.shares, sign=-1)
        )
        book = replace(book, now=max(at, book.now))
    return None


def alternatives(book: Book, waiter: Waiter) -> list[Alternative]:
    """Up to three, the least different first."""
    found: list[Alternative] = []
    for changed, difference in variations(book, waiter):
        for pool_id in changed.pools:
            if pool_id in book.pools and isinstance(
                attempt_in(book, changed, pool_id, book.pools[pool_id], None), Start
            ):
                found.append(Alternative(changed, pool_id, difference))
                break
        if len(found) == MOST_ALTERNATIVES:
            break
    return found


def variations(book: Book, waiter: Waiter) -> Iterator[tuple[Waiter, str]]:
    r = waiter.request
    if r.same_node and r.gpu_count > 1:
        yield replace(waiter, request=replace(r, same_node=False)), "on several nodes"
    if not waiter.preemptible:
        yield replace(waiter, preemptible=True), "preemptible"
    for pool_id, pool in book.pools.items():
        if pool_id not in waiter.pools:
            yield replace(waiter, pools=(pool_id,)), f"from pool {pool.name}"
    if r.model or r.labels:
        yield (
            replace(waiter, request=replace(r, model="", labels=())),
            "on any model" if r.model else "without labels",
        )
    if r.compute_mode is ComputeMode.EXCLUSIVE:
        for percent in (75, 50, 25, 10):
            yield (
                replace(
                    waiter, request=replace(r, compute_mode=ComputeMode.SHARED, percent=percent)
                ),
                f"{percent} % of each GPU",
            )
    elif r.memory_bytes == 0:
        for percent in sorted(
            {r.percent * part // 100 for part in (90, 75, 50, 25, 10)} - {0, r.percent},
            reverse=True,
        ):
            yield replace(waiter, request=replace(r, percent=percent)), f"{percent} % of each GPU"
    for count in range(r.gpu_count - 1, 0, -1):
        yield replace(waiter, request=replace(r, gpu_count=count)), f"{count} GPUs"
