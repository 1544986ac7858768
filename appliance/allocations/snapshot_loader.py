"""Load a `SchedulerSnapshot` and the queue from the database. Read-only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from appliance.accounts.models import Department, Project, User
from appliance.allocations.active_allocations import (
    load_active_allocations,
    load_sized_partitions,
    quota_subjects,
)
from appliance.allocations.models import IN_PROGRESS, Allocation, AllocationState
from appliance.allocations.placement import ComputeMode, GpuCapacity, Policy, Request
from appliance.allocations.sizes import SizedPartition, can_grow, growth, growth_percent
from appliance.allocations.snapshot import (
    ActiveAllocations,
    Entitlement,
    PendingAllocation,
    PoolCapacity,
    Reservation,
    SchedulerSnapshot,
    Subject,
)
from appliance.allocations.snapshot_gpus import load_pool_gpus, parse_version
from appliance.db.prepared import Select
from appliance.pools import models as pools
from appliance.pools.fair_share import PastUse, load_past_use, mean_past_use
from appliance.pools.subject_kind import SubjectKind
from appliance.runtime.each import convert_each


@dataclass(frozen=True, slots=True)
class PoolRule:
    name: str
    policies: tuple[Policy, ...]
    fallbacks: tuple[UUID, ...]
    allowed_projects: frozenset[UUID] | None
    """None: all projects."""
    unreadable: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """Configuration of pools, quotas and reservations. It changes only by administration."""

    pools: Mapping[UUID, PoolRule]
    entitlements: Mapping[Subject, Entitlement]
    reservations: Sequence[Reservation]
    past_use: Sequence[PastUse]
    departments: Mapping[UUID, UUID]
    """Project to department, for projects in a department."""

    def pools_to_try(self, a: Allocation) -> tuple[UUID, ...]:
        """Return the pool of a request and its fallbacks, if the project may use them."""
        pool = self.pools.get(a.pool_id) if a.pool_id else None
        chain = (*filter(None, [a.pool_id]), *(pool.fallbacks if pool else ()))
        return tuple(p for p in chain if p in self.pools and self.allows(p, a.project_id))

    def allows(self, pool_id: UUID, project_id: UUID) -> bool:
        allowed = self.pools[pool_id].allowed_projects
        return not allowed or project_id in allowed


UNREADABLE = Entitlement("", unreadable=True)


def load_rules() -> Rules:
    """Return the rules. Rows that cannot be read are logged and marked.

    Without the pool, its requests would be refused as those of a deleted one. Without the quota or
    reservation, its subject or others would get GPUs that they must not have.
    """
    return Rules(
        load_pools(),
        load_entitlements(),
        load_reservations(),
        load_past_use(),
        dict(Project.objects.exclude(department=None).values_list("pk", "department_id")),
    )


def load_pools() -> dict[UUID, PoolRule]:
    found, failed = convert_each(
        "scheduler: reading of pool", pools.Pool.objects.all(), rule_of, lambda p: p.name
    )
    return dict(found) | {p.pk: PoolRule(p.name, (), (), None, unreadable=True) for p in failed}


def rule_of(p: pools.Pool) -> tuple[UUID, PoolRule]:
    policies, fallbacks = tuple(map(Policy, p.policies)), tuple(map(UUID, p.fallbacks))
    return p.pk, PoolRule(p.name, policies, fallbacks, p.audience)


def load_entitlements() -> dict[Subject, Entitlement]:
    models: dict[str, type[User | Project | Department]] = {
        "user": User,
        "project": Project,
        "department": Department,
    }
    rows = list(pools.Quota.objects.all())
    field = {"user": "username", "project": "name", "department": "name"}
    ids = {kind: [q.subject_id for q in rows if q.subject_kind == kind] for kind in models}
    names = {
        kind: dict(model.objects.filter(pk__in=ids[kind]).values_list("pk", field[kind]))
        for kind, model in models.items()
    }

    def entitlement_of(q: pools.Quota) -> tuple[Subject, Entitlement]:
        name = names[q.subject_kind].get(q.subject_id, "(deleted)")
        subject = Subject(SubjectKind(q.subject_kind), q.subject_id)
        return subject, Entitlement(name, q.quota_percent, q.limit_percent, q.borrows, q.weight)

    found, failed = convert_each(
        "scheduler: reading of quota", rows, entitlement_of, lambda q: q.pk
    )
    # The kind may be what cannot be read. Ids are unique among all kinds.
    marked = {Subject(kind, q.subject_id): UNREADABLE for q in failed for kind in SubjectKind}
    return dict(found) | marked


def load_reservations() -> list[Reservation]:
    def reservation_of(r: pools.Reservation) -> Reservation:
        request = Request(r.gpu_count, r.percent)
        return Reservation(r.pk, r.name, r.pool_id, r.project_id, request, r.starts_at, r.ends_at)

    rows = pools.Reservation.objects.order_by("pk")
    found, failed = convert_each(
        "scheduler: reading of reservation", rows, reservation_of, lambda r: r.pk
    )
    return found + [
        Reservation(r.pk, r.name, r.pool_id, r.project_id, None, r.starts_at, r.ends_at)
        for r in failed
    ]


SchedulerState = tuple[Mapping[UUID, Sequence[GpuCapacity]], ActiveAllocations, Rules]
"""GPUs of each pool, active allocations and rules."""
QueuedAllocations = dict[UUID, tuple[Allocation, PendingAllocation]]


def load_snapshot(
    state: SchedulerState | None = None, queued: Iterable[Allocation] | None = None
) -> tuple[SchedulerSnapshot, QueuedAllocations]:
    """Return the current snapshot and the queue. Arguments replace the corresponding reads."""
    now = timezone.now()
    gpus, active, rules = state or (load_pool_gpus(), load_active_allocations(), load_rules())
    snapshot = SchedulerSnapshot(
        now,
        {
            i: PoolCapacity(p.name, gpus.get(i, []), p.policies, p.unreadable)
            for i, p in rules.pools.items()
        },
        active,
        rules.entitlements,
        [r for r in rules.reservations if r.ends_at > now],
        mean_past_use(now, rules.past_use),
    )
    rows = waiting_allocations() if queued is None else queued
    return snapshot, pending_allocations(list(rows), rules, now)


def pending_allocations(
    rows: Sequence[Allocation], rules: Rules, now: datetime
) -> QueuedAllocations:
    """Convert queued allocations, and active ones that wait to grow and whose nodes can do that."""
    growing = [a.pk for a in rows if a.state != AllocationState.QUEUED]
    sized = load_sized_partitions(growing)

    def pending_of(a: Allocation) -> PendingAllocation:
        department = rules.departments.get(a.project_id)
        if a.state == AllocationState.QUEUED:
            found = pending_allocation(a, rules.pools_to_try(a), department)
        else:
            found = pending_growth(a, sized[a.pk], department, now)
        hash(found.request)  # decisions remember requests, and a damaged selector has no hash
        return found

    wanted = [a for a in rows if a.state == AllocationState.QUEUED or can_grow(sized.get(a.pk, ()))]
    found, _ = convert_each(
        "scheduler: reading of request", wanted, lambda a: (a, pending_of(a)), lambda a: a.pk
    )
    return {a.pk: (a, pending) for a, pending in found}


QUEUED_ALLOCATIONS = Select(lambda: Allocation.objects.filter(state=AllocationState.QUEUED))
RESIZED_ALLOCATIONS = Select(lambda: Allocation.objects.filter(resize_requested_at__isnull=False))
"""Without the state: SQLite would scan all active allocations."""


def waiting_allocations() -> list[Allocation]:
    """Return the requests in the queue, and the active allocations that wait to grow."""
    return QUEUED_ALLOCATIONS.objects() + list(filter(is_waiting, RESIZED_ALLOCATIONS.objects()))


def is_waiting(a: Allocation) -> bool:
    """Return whether an allocation is in the queue or waits to grow.

    A size with less memory is not granted during a suspension: the node would report the memory as
    free that the programs need when they go on.
    """
    return a.state == AllocationState.QUEUED or (
        a.state == AllocationState.ACTIVE
        and a.resize_requested_at is not None
        and a.evict_at is None
        and a.suspension not in IN_PROGRESS
    )


def placement_request(a: Allocation) -> Request:
    """Return what an allocation requests, for a placement or for a comparison with its size."""
    return Request(
        a.gpu_count,
        a.percent,
        a.memory_bytes,
        ComputeMode(a.compute_mode),
        a.same_node,
        a.model,
        tuple(sorted(a.selector.items())),
        parse_version(a.min_driver_version) if a.min_driver_version else (),
        parse_version(a.min_cuda_version) if a.min_cuda_version else (),
    )


def pending_growth(
    a: Allocation,
    partitions: Sequence[SizedPartition],
    department_id: UUID | None,
    now: datetime,
) -> PendingAllocation:
    """Convert an active allocation that waits to grow. It can only grow on its GPUs."""
    pools = (a.placed_pool_id,) if a.placed_pool_id else ()
    pending = pending_allocation(a, pools, department_id)
    lifetime = pending.lifetime
    if lifetime is not None and a.active_at is not None:
        lifetime = a.active_at + lifetime - now
    return replace(
        pending,
        created_at=a.resize_requested_at or now,
        lifetime=lifetime,
        growth=growth(partitions, pending.request),
        growth_percent=growth_percent(partitions, pending.request),
    )


def pending_allocation(
    a: Allocation, pools: tuple[UUID, ...], department_id: UUID | None
) -> PendingAllocation:
    """Convert a queued allocation. `pools` are the pools to try, in order."""
    return PendingAllocation(
        a.pk,
        placement_request(a),
        pools,
        quota_subjects(a.project_id, a.owner_id, department_id),
        a.project_id,
        a.priority,
        a.preemptible,
        a.created_at,
        timedelta(seconds=a.lifetime_seconds) if a.lifetime_seconds else None,
        a.reservation_id,
    )
