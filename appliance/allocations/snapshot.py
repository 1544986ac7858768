"""State on which the scheduler decides: pending requests, active allocations and quotas.

Pure data without database access. Sizes are in percent of one GPU, of its compute or of its memory,
so two whole GPUs are 200. A project may always use its quota. Beyond it, the project borrows idle
capacity and returns it on demand. A limit is never exceeded.
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
    GpuCapacity,
    NoPlacement,
    Placement,
    Policy,
    Request,
    Share,
    place,
)
from appliance.allocations.sizes import place_growth
from appliance.pools.subject_kind import SubjectKind


class WaitingRule(enum.StrEnum):
    """The rule that keeps a request in the queue."""

    CAPACITY = "capacity"
    LIMIT = "limit"
    QUOTA = "quota"
    RESERVATION = "reservation"
    AHEAD = "ahead"
    """Free GPUs are kept for an older request."""
    RECLAIM = "reclaim"
    """Other allocations are being evicted for the request."""
    ERROR = "error"
    """The appliance failed to read or start the request."""


class Subject(NamedTuple):
    """The user, project or department to which a quota applies."""

    kind: SubjectKind
    id: UUID


@dataclass(frozen=True, slots=True)
class Entitlement:
    name: str
    quota_percent: int | None = None
    """None: the subject has no guaranteed capacity and uses only idle capacity."""
    limit_percent: int | None = None
    borrows: bool = True
    """The subject may exceed its quota while capacity is idle."""
    weight: float = 1.0
    unreadable: bool = False
    """The quota could not be read: nothing starts for the subject, and it loses nothing."""


@dataclass(frozen=True, slots=True)
class PendingAllocation:
    """A request in the queue, or an active allocation that waits to grow."""

    allocation_id: UUID
    request: Request
    pools: tuple[UUID, ...]
    """Pools to try, in order."""
    subjects: tuple[Subject, ...]
    project_id: UUID
    priority: int
    preemptible: bool
    created_at: datetime
    lifetime: timedelta | None = None
    """None: unlimited."""
    reservation_id: UUID | None = None
    growth: tuple[Share, ...] = ()
    """Growth of each GPU of an active allocation. Empty: a request in the queue."""
    growth_percent: int = 0
    """Size of the growth."""

    @property
    def max_percent(self) -> int:
        """Upper bound of the size: for requests in bytes, the percentage depends on the GPU."""
        if self.growth:
            return self.growth_percent
        percent = 0 if self.request.memory_bytes else self.request.percent
        return self.request.gpu_count * (percent or WHOLE_PERCENT)

    @property
    def added_gpus(self) -> int:
        return 0 if self.growth else self.request.gpu_count

    def place(
        self, gpus: Sequence[GpuCapacity], policies: Sequence[Policy]
    ) -> Placement | NoPlacement:
        """Return the additional shares, or the reason why there is no capacity for them."""
        return (
            place_growth(gpus, self.growth) if self.growth else place(gpus, self.request, policies)
        )


@dataclass(frozen=True, slots=True)
class ActiveAllocation:
    """An allocation that occupies GPUs."""

    allocation_id: UUID
    pool_id: UUID
    shares: tuple[Share, ...]
    subjects: tuple[Subject, ...]
    project_id: UUID
    priority: int
    preemptible: bool
    started_at: datetime
    leaving: bool = False
    """The allocation is being released, or its eviction is announced."""
    noticed: bool = False
    """The eviction was announced for a request. It goes on if no decision repeats that."""
    ends_at: datetime | None = None
    reservation_id: UUID | None = None

    @property
    def percent(self) -> int:
        return sum(s.size_percent for s in self.shares)


class ActiveAllocations(dict[UUID, ActiveAllocation]):
    """Active allocations by id, with running totals for each subject.

    Change entries only by item assignment and `discard`; they keep the totals up to date.
    Summing up for every decision would cost more than the decision itself.
    """

    __slots__ = ("non_preemptible_use", "use")

    def __init__(self, allocations: Iterable[ActiveAllocation] = ()) -> None:
        super().__init__()
        self.use: Counter[Subject] = Counter()
        self.non_preemptible_use: Counter[Subject] = Counter()
        for a in allocations:
            self[a.allocation_id] = a

    def __setitem__(self, allocation_id: UUID, allocation: ActiveAllocation) -> None:
        self.discard(allocation_id)
        super().__setitem__(allocation_id, allocation)
        self._count(allocation, 1)

    def discard(self, allocation_id: UUID) -> None:
        allocation = self.pop(allocation_id, None)
        if allocation is not None:
            self._count(allocation, -1)

    def _count(self, allocation: ActiveAllocation, sign: int) -> None:
        percent = sign * allocation.percent
        for subject in allocation.subjects:
            self.use[subject] += percent
            if not allocation.preemptible:
                self.non_preemptible_use[subject] += percent

    def copy(self) -> ActiveAllocations:
        copied = ActiveAllocations()
        copied.update(self)
        copied.use = Counter(self.use)
        copied.non_preemptible_use = Counter(self.non_preemptible_use)
        return copied


@dataclass(frozen=True, slots=True)
class Reservation:
    """GPUs of a pool that are kept for a project during a period."""

    id: UUID
    name: str
    pool_id: UUID
    project_id: UUID
    request: Request | None
    """None: it could not be read, so nothing else starts in the pool."""
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class PoolCapacity:
    name: str
    gpus: Sequence[GpuCapacity]
    policies: Sequence[Policy] = DEFAULT_POLICIES
    unreadable: bool = False
    """The pool could not be read: nothing starts in it, and nothing is evicted for a start."""


@dataclass(frozen=True, slots=True)
class Start:
    """Decision to start a request."""

    pool_id: UUID
    placement: Placement


@dataclass(frozen=True, slots=True)
class Wait:
    """Decision to keep a request in the queue."""

    rule: WaitingRule
    reason: str
    evictions: tuple[UUID, ...] = ()
    """Allocations to evict so that the request can start."""


@dataclass(slots=True)
class SchedulerSnapshot:
    """State of one scheduler tick. Decisions of the tick change it."""

    now: datetime
    pools: dict[UUID, PoolCapacity]
    active: ActiveAllocations
    entitlements: Mapping[Subject, Entitlement]
    reservations: Sequence[Reservation] = ()
    past_use: Mapping[UUID, float] = field(default_factory=dict)
    """Decayed past use of each project, in percent. It lowers the project's priority."""
    failed_placements: dict[tuple[UUID, Request, tuple[Share, ...]], str] = field(
        init=False, default_factory=dict
    )
    """Reasons by pool, request and growth. Capacity only shrinks during a tick, so they hold."""

    @property
    def use(self) -> Counter[Subject]:
        return self.active.use

    def within_quota(self, pending: PendingAllocation) -> bool:
        """Return whether the whole request fits in the quota of its project."""
        project = Subject(SubjectKind.PROJECT, pending.project_id)
        e = self.entitlements.get(project)
        return (
            e is not None
            and e.quota_percent is not None
            and self.use[project] + pending.max_percent <= e.quota_percent
        )

    def within_reservation(self, pending: PendingAllocation) -> bool:
        """Return whether the reservation of the request has begun and covers all of its GPUs."""
        r = next(
            (
                r
                for r in self.reservations
                if r.id == pending.reservation_id and r.starts_at <= self.now < r.ends_at
            ),
            None,
        )
        return (
            r is not None
            and r.request is not None
            and self.reserved_gpus_in_use(r) + pending.added_gpus <= r.request.gpu_count
        )

    def reserved_gpus_in_use(self, r: Reservation) -> int:
        return sum(len(a.shares) for a in self.active.values() if a.reservation_id == r.id)

    def start(self, pending: PendingAllocation, start: Start) -> None:
        """Record a start: take its capacity and add it to the active allocations."""
        pool = self.pools[start.pool_id]
        remaining = subtract_shares(pool.gpus, start.placement.shares)
        self.pools[start.pool_id] = replace(pool, gpus=remaining)
        if pending.growth:
            grown = self.active[pending.allocation_id]
            shares = tuple(map(sum_of, grown.shares, start.placement.shares))
            self.active[pending.allocation_id] = replace(grown, shares=shares)
            return
        self.active[pending.allocation_id] = ActiveAllocation(
            pending.allocation_id,
            start.pool_id,
            start.placement.shares,
            pending.subjects,
            pending.project_id,
            pending.priority,
            pending.preemptible,
            self.now,
            ends_at=self.now + pending.lifetime if pending.lifetime else None,
            reservation_id=pending.reservation_id,
        )


def sum_of(share: Share, added: Share) -> Share:
    """Return a share after its growth."""
    return replace(
        share,
        memory_bytes=share.memory_bytes + added.memory_bytes,
        compute_percent=share.compute_percent + added.compute_percent,
    )


def subtract_shares(gpus: Sequence[GpuCapacity], shares: Iterable[Share]) -> list[GpuCapacity]:
    """Return the GPUs after the shares are taken."""
    return _change_free(gpus, shares, -1)


def add_shares(gpus: Sequence[GpuCapacity], shares: Iterable[Share]) -> list[GpuCapacity]:
    """Return the GPUs after the shares are freed."""
    return _change_free(gpus, shares, 1)


def _change_free(
    gpus: Sequence[GpuCapacity], shares: Iterable[Share], sign: int
) -> list[GpuCapacity]:
    changes: dict[UUID, tuple[int, int]] = {}
    for s in shares:
        percent, memory = changes.get(s.gpu_id, (0, 0))
        changes[s.gpu_id] = (percent + sign * s.compute_percent, memory + sign * s.memory_bytes)
    return [
        replace(
            g,
            free_percent=g.free_percent + changes[g.gpu_id][0],
            free_memory_bytes=g.free_memory_bytes + changes[g.gpu_id][1],
        )
        if g.gpu_id in changes
        else g
        for g in gpus
    ]
