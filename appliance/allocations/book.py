"""Rows to what the queue decides about. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from appliance.accounts.models import Department, Project, User
from appliance.allocations import claims
from appliance.allocations.models import OCCUPYING, Allocation, AllocationState, Partition
from appliance.allocations.placement import ComputeMode, GpuRoom, Policy, Request, Share
from appliance.inventory.models import Gpu, GpuQuerySet, NodeState
from appliance.pools.fair_share import PastUse, past_use, past_uses
from appliance.pools.models import Pool, Quota, Reservation
from appliance.pools.subject_kind import SubjectKind
from appliance.prepared import Select
from appliance.telemetry import latest


def version_of(text: str) -> tuple[int, ...]:
    """580.95.05 to (580, 95, 5); what is no version is older than all."""
    parts = text.split(".")
    return tuple(int(p) for p in parts) if all(p.isdigit() for p in parts) else ()


def request_of(a: Allocation) -> Request:
    return Request(
        a.gpu_count, a.percent, a.memory_bytes, ComputeMode(a.compute_mode), a.same_node, a.model, tuple(sorted(a.selector.items())),
        version_of(a.min_driver_version) if a.min_driver_version else (), version_of(a.min_cuda_version) if a.min_cuda_version else (),
    )  # fmt: skip


ROOM_COLUMNS = (
    "pool_id", "pk", "node_id", "index", "memory_bytes", "taken_percent", "taken_memory_bytes", "model", "mig", "present", "labels",
    "node__name", "node__state", "node__labels", "node__driver_version", "node__cuda_version",
    "node__site__name",
)  # fmt: skip


def gpus(
    *, gpu_ids: Iterable[UUID] | None = None, node_ids: Iterable[UUID] | None = None
) -> Iterator[tuple[UUID, str, GpuRoom]]:
    """Pool, node's name and room of these GPUs, or of all that are in a pool, as the rows say. Partitions count until their node has reported them gone."""
    rows: Iterable[Sequence[Any]]
    if gpu_ids is not None and len(ids := list(gpu_ids)) <= FEW:
        rows = FEW_GPUS.rows(gpu_ids=ids) if ids else ()
    else:
        found = pooled_gpus()
        if gpu_ids is not None:
            found = found.filter(pk__in=ids)
        if node_ids is not None:
            found = found.filter(node_id__in=list(node_ids))
        rows = found.values_list(*ROOM_COLUMNS)
    for row in rows:
        yield row[0], row[11], room_of(*row[1:])


def pooled_gpus() -> GpuQuerySet:
    return Gpu.objects.filter(pool_id__isnull=False).exclude(node__state=NodeState.REMOVED)


FEW = 16
FEW_GPUS = Select(lambda gpu_ids: pooled_gpus().filter(pk__in=gpu_ids).values_list(*ROOM_COLUMNS))


def room_of(
    gpu_id: UUID, node_id: UUID, index: int, memory_bytes: int, taken_percent: int, taken_memory_bytes: int, model: str, mig: bool, present: bool,
    labels: dict[str, str], node: str, node_state: str, node_labels: dict[str, str], driver_version: str, cuda_version: str,
    site: str | None,
) -> GpuRoom:  # fmt: skip
    why = ""
    if not present:
        why = f"GPU {index} of {node} is gone"
    elif node_state != NodeState.READY:
        why = f"node {node} is {node_state}"
    elif mig:
        why = f"GPU {index} of {node} is in MIG mode"
    all_labels = ({"site": site} if site else {}) | node_labels | labels
    return GpuRoom(
        gpu_id, node_id, memory_bytes, 100 - taken_percent, memory_bytes - taken_memory_bytes, not why, why, model, all_labels,
        version_of(driver_version), version_of(cuda_version) if cuda_version else (),
    )  # fmt: skip


def if_reachable(room: GpuRoom, node: str, unreachable: Collection[UUID]) -> GpuRoom:
    """Reachability is in no row."""
    return (
        replace(room, usable=False, why_not=f"node {node} is unreachable")
        if room.usable and room.node_id in unreachable
        else room
    )


def rooms() -> dict[UUID, list[GpuRoom]]:
    """Each pool's."""
    rows = list(gpus())
    unreachable = latest.unreachable({room.node_id for _, _, room in rows})
    found: dict[UUID, list[GpuRoom]] = {}
    for pool_id, node, room in rows:
        found.setdefault(pool_id, []).append(if_reachable(room, node, unreachable))
    return found


def subjects_of(
    project_id: UUID, owner_id: UUID, department_id: UUID | None
) -> tuple[claims.Subject, ...]:
    """The project first: it is named before its department and the user when several limits are reached."""
    subjects = (
        claims.Subject(SubjectKind.PROJECT, project_id),
        claims.Subject(SubjectKind.USER, owner_id),
    )
    return (
        (*subjects, claims.Subject(SubjectKind.DEPARTMENT, department_id))
        if department_id
        else subjects
    )


def waiter_of(a: Allocation, rules: Rules) -> claims.Waiter:
    pool = rules.pools.get(a.pool_id) if a.pool_id else None
    chain = tuple(
        p
        for p in (*filter(None, [a.pool_id]), *(pool.fallbacks if pool else ()))
        if p in rules.pools and a.project_id in (rules.pools[p].audience or {a.project_id})
    )
    return claims.Waiter(
        a.pk, request_of(a), chain, subjects_of(a.project_id, a.owner_id, rules.departments.get(a.project_id)), a.project_id, a.priority, a.preemptible,
        a.created_at,
        timedelta(seconds=a.lifetime_seconds) if a.lifetime_seconds else None, a.reservation_id,
    )  # fmt: skip


def holders(allocation_ids: Iterable[UUID] | None = None) -> claims.Holders:
    """Of these allocations, or of all."""
    rows_of: Iterable[Sequence[Any]]
    if allocation_ids is None:
        rows_of = shares_of().filter(allocation__state__in=OCCUPYING)
    elif len(ids := list(allocation_ids)) <= FEW:
        rows_of = FEW_HOLDERS.rows(allocation_ids=ids) if ids else ()
    else:
        rows_of = shares_of().filter(allocation_id__in=ids)
    shares: dict[UUID, list[Share]] = {}
    rows: dict[UUID, tuple[Any, ...]] = {}
    for allocation_id, gpu_id, node_id, memory_bytes, compute_percent, *row in rows_of:
        shares.setdefault(allocation_id, []).append(
            Share(gpu_id, node_id, memory_bytes, compute_percent)
        )
        rows[allocation_id] = tuple(row)
    return claims.Holders(
        holder_of(i, tuple(shares[i]), *row) for i, row in rows.items() if row[0] in OCCUPYING
    )


def shares_of() -> QuerySet[Partition, tuple[Any, ...]]:
    return Partition.objects.order_by("position").values_list(*HOLDER_COLUMNS)


FEW_HOLDERS = Select(lambda allocation_ids: shares_of().filter(allocation_id__in=allocation_ids))
"""Whatever their state: SQLite would look for all that occupy something first, and then for these."""
HOLDER_COLUMNS = (
    "allocation_id", "gpu_id", "gpu__node_id", "memory_bytes", "compute_percent",
    *(f"allocation__{name}" for name in (
        "state", "placed_pool_id", "pool_id", "project_id", "owner_id", "project__department_id", "priority", "preemptible", "active_at", "created_at",
        "lifetime_seconds", "evict_at", "reservation_id",
    )),
)  # fmt: skip
NO_POOL = UUID(int=0)


def holder_of(
    allocation_id: UUID, shares: tuple[Share, ...], state: str, placed_pool_id: UUID | None, pool_id: UUID | None, project_id: UUID, owner_id: UUID,
    department_id: UUID | None, priority: int, preemptible: bool, active_at: datetime | None, created_at: datetime, lifetime_seconds: int | None,
    evict_at: datetime | None, reservation_id: UUID | None,
) -> claims.Holder:  # fmt: skip
    started_at = active_at or created_at
    ends_at = started_at + timedelta(seconds=lifetime_seconds) if lifetime_seconds else None
    return claims.Holder(
        allocation_id, placed_pool_id or pool_id or NO_POOL, shares, subjects_of(project_id, owner_id, department_id), project_id, priority, preemptible,
        started_at, leaving=state == AllocationState.RELEASING or evict_at is not None, ends_at=ends_at, reservation_id=reservation_id,
    )  # fmt: skip


def entitlements() -> dict[claims.Subject, claims.Entitlement]:
    models: dict[str, type[User | Project | Department]] = {
        "user": User,
        "project": Project,
        "department": Department,
    }
    rows = list(Quota.objects.all())
    field = {"user": "username", "project": "name", "department": "name"}
    ids = {kind: [q.subject_id for q in rows if q.subject_kind == kind] for kind in models}
    names = {
        kind: dict(model.objects.filter(pk__in=ids[kind]).values_list("pk", field[kind]))
        for kind, model in models.items()
    }
    return {
        claims.Subject(SubjectKind(q.subject_kind), q.subject_id): claims.Entitlement(
            names[q.subject_kind].get(q.subject_id, "that is gone"),
            q.quota_percent,
            q.limit_percent,
            q.borrows,
            q.weight,
        )
        for q in rows
    }


def reservations() -> list[claims.Reservation]:
    return [
        claims.Reservation(
            r.pk,
            r.name,
            r.pool_id,
            r.project_id,
            Request(r.gpu_count, r.percent),
            r.starts_at,
            r.ends_at,
        )
        for r in Reservation.objects.order_by("pk")
    ]


@dataclass(frozen=True, slots=True)
class PoolRule:
    name: str
    policies: tuple[Policy, ...]
    fallbacks: tuple[UUID, ...]
    audience: frozenset[UUID] | None


@dataclass(frozen=True, slots=True)
class Rules:
    """What changes only when people change it."""

    pools: Mapping[UUID, PoolRule]
    entitlements: Mapping[claims.Subject, claims.Entitlement]
    reservations: Sequence[claims.Reservation]
    past: Sequence[PastUse]
    departments: Mapping[UUID, UUID]
    """Of the projects that are in one."""


def rules() -> Rules:
    return Rules(
        {
            p.pk: PoolRule(
                p.name, tuple(map(Policy, p.policies)), tuple(map(UUID, p.fallbacks)), p.audience
            )
            for p in Pool.objects.all()
        },
        entitlements(),
        reservations(),
        past_uses(),
        dict(Project.objects.exclude(department=None).values_list("pk", "department_id")),
    )


Kept = tuple[Mapping[UUID, Sequence[GpuRoom]], claims.Holders, Rules]


WAITING = Select(lambda: Allocation.objects.filter(state=AllocationState.WAITING))


def waiting_rows() -> list[Allocation]:
    return WAITING.objects()


def opened(
    kept: Kept | None = None, waiting: Iterable[Allocation] | None = None
) -> tuple[claims.Book, dict[UUID, tuple[Allocation, claims.Waiter]]]:
    """Everything as it is now, and who waits. `kept`: rooms, holders and rules that need not be read."""
    now = timezone.now()
    free, held, rule = kept or (rooms(), holders(), rules())
    book = claims.Book(
        now,
        {i: claims.PoolRooms(p.name, free.get(i, []), p.policies) for i, p in rule.pools.items()},
        held,
        rule.entitlements,
        [r for r in rule.reservations if r.ends_at > now],
        past_use(now, rule.past),
    )
    return book, {
        a.pk: (a, waiter_of(a, rule)) for a in (waiting_rows() if waiting is None else waiting)
    }
