"""What the queue decides about: who waits, who holds, what is owed to whom. Pure.

Sizes are in percent of a GPU's compute, 100 a GPU. A project's quota is what it may always have; beyond it, it borrows what others leave idle and gives it
back when they ask. A limit is never exceeded.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from appliance.allocations.placement import (
    DEFAULT_POLICIES,
    WHOLE_PERCENT,
    GpuRoom,
    Placed,
    Policy,
    Request,
    Share,
)
from appliance.pools.subject_kind import SubjectKind


class Rule(enum.StrEnum):
    """What holds a request back."""

    ROOM = "room"
    LIMIT = "limit"
    QUOTA = "quota"
    RESERVATION = "reservation"
    AHEAD = "ahead"
    """Another request is first."""
    RECLAIM = "reclaim"
    """Room is being made for it."""


class Subject(NamedTuple):
    """Whom a quota is for."""

    kind: SubjectKind
    id: UUID


@dataclass(frozen=True, slots=True)
class Entitlement:
    name: str
    quota_percent: int | None = None
    """None: nothing is owed to it; it lives on what others leave."""
    limit_percent: int | None = None
    borrows: bool = True
    """May go beyond its quota while others do not use theirs."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Waiter:
    allocation_id: UUID
    request: Request
    pools: tuple[UUID, ...]
    """In the order in which they are tried."""
    subjects: tuple[Subject, ...]
    project_id: UUID
    priority: int
    preemptible: bool
    created_at: datetime
    ends_after: timedelta | None = None
    """How long it may live; None: for ever."""
    reservation_id: UUID | None = None

    @property
    def most_percent(self) -> int:
        """What it may take: in memory, the share of compute depends on the GPU."""
        return self.request.gpu_count * (self.request.percent or WHOLE_PERCENT)


@dataclass(frozen=True, slots=True)
class Holder:
    allocation_id: UUID
    pool_id: UUID
    shares: tuple[Share, ...]
    subjects: tuple[Subject, ...]
    project_id: UUID
    priority: int
    preemptible: bool
    started_at: datetime
    leaving: bool = False
    """Its end has begun or was announced."""
    ends_at: datetime | None = None
    reservation_id: UUID | None = None

    @property
    def percent(self) -> int:
        return sum(s.compute_percent for s in self.shares)


class Holders(dict[UUID, Holder]):
    """By allocation, with what each subject has. Counting all of them for every decision would take longer than deciding."""

    __slots__ = ("fixed_use", "use")

    def __init__(self, holders: Iterable[Holder] = ()) -> None:
        super().__init__()
        self.use: Counter[Subject] = Counter()
        self.fixed_use: Counter[Subject] = Counter()
        """Of what cannot be preempted."""
        for h in holders:
            self[h.allocation_id] = h

    def __setitem__(self, allocation_id: UUID, holder: Holder) -> None:
        self.take_out(allocation_id)
        super().__setitem__(allocation_id, holder)
        self._count(holder, 1)

    def take_out(self, allocation_id: UUID) -> Holder | None:
        holder = self.pop(allocation_id, None)
        if holder is not None:
            self._count(holder, -1)
        return holder

    def _count(self, holder: Holder, sign: int) -> None:
        percent = sign * holder.percent
        for subject in holder.subjects:
            self.use[subject] += percent
            if not holder.preemptible:
                self.fixed_use[subject] += percent

    def copy(self) -> Holders:
        made = Holders()
        made.update(self)
        made.use, made.fixed_use = Counter(self.use), Counter(self.fixed_use)
        return made


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs of a pool that a project will have between two times."""

    id: UUID
    name: str
    pool_id: UUID
    project_id: UUID
    request: Request
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class PoolRooms:
    name: str
    rooms: Sequence[GpuRoom]
    policies: Sequence[Policy] = DEFAULT_POLICIES


@dataclass(frozen=True, slots=True)
class Start:
    pool_id: UUID
    placed: Placed


@dataclass(frozen=True, slots=True)
class Wait:
    rule: Rule
    reason: str
    evictions: tuple[UUID, ...] = ()
    """Allocations that are asked to leave so that this one can start."""


@dataclass(slots=True)
class Book:
    """The state while one round of decisions is made."""

    now: datetime
    pools: dict[UUID, PoolRooms]
    holders: Holders
    entitlements: Mapping[Subject, Entitlement]
    reservations: Sequence[Reservation] = ()
    past: Mapping[UUID, float] = field(default_factory=dict)
    """Project to its decayed use, in percent: what it had lately counts against it."""
    no_room: dict[tuple[UUID, Request], str] = field(init=False, default_factory=dict)
    """Rooms only shrink while a round is decided, so what did not fit once need not be tried again."""

    @property
    def use(self) -> Counter[Subject]:
        return self.holders.use

    def within_quota(self, waiter: Waiter) -> bool:
        """Whether all of it is owed to its project."""
        project = Subject(SubjectKind.PROJECT, waiter.project_id)
        e = self.entitlements.get(project)
        return (
            e is not None
            and e.quota_percent is not None
            and self.use[project] + waiter.most_percent <= e.quota_percent
        )

    def reserved_now(self, waiter: Waiter) -> bool:
        """Whether a reservation that has begun still has so many GPUs for it."""
        r = next(
            (
                r
                for r in self.reservations
                if r.id == waiter.reservation_id and r.starts_at <= self.now < r.ends_at
            ),
            None,
        )
        return (
            r is not None and self.held_under(r) + waiter.request.gpu_count <= r.request.gpu_count
        )

    def held_under(self, r: Reservation) -> int:
        return sum(len(h.shares) for h in self.holders.values() if h.reservation_id == r.id)

    def take(self, waiter: Waiter, start: Start) -> None:
        pool = self.pools[start.pool_id]
        self.pools[start.pool_id] = replace(pool, rooms=without(pool.rooms, start.placed.shares))
        ends_at = self.now + waiter.ends_after if waiter.ends_after else None
        self.holders[waiter.allocation_id] = Holder(
            waiter.allocation_id, start.pool_id, start.placed.shares, waiter.subjects, waiter.project_id, waiter.priority, waiter.preemptible, self.now,
            ends_at=ends_at, reservation_id=waiter.reservation_id,
        )  # fmt: skip


def without(rooms: Sequence[GpuRoom], shares: Iterable[Share], *, sign: int = 1) -> list[GpuRoom]:
    """The rooms when the shares are taken, or, with sign -1, given back."""
    taken: dict[UUID, tuple[int, int]] = {}
    for s in shares:
        percent, memory = taken.get(s.gpu_id, (0, 0))
        taken[s.gpu_id] = (percent + sign * s.compute_percent, memory + sign * s.memory_bytes)
    return [
        replace(
            g,
            free_percent=g.free_percent - taken[g.gpu_id][0],
            free_memory_bytes=g.free_memory_bytes - taken[g.gpu_id][1],
        )
        if g.gpu_id in taken
        else g
        for g in rooms
    ]
