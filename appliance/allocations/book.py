"""Rows to what the queue decides about. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone

from appliance.accounts.models import Department, Project, User
from appliance.allocations import claims
from appliance.allocations.models import OCCUPYING, Allocation, AllocationState, Partition
from appliance.allocations.placement import ComputeMode, GpuRoom, Policy, Request, Share
from appliance.inventory.models import Gpu, NodeState
from appliance.pools.fair_share import past_use
from appliance.pools.models import Pool, Quota, Reservation
from appliance.pools.subject_kind import SubjectKind
from appliance.telemetry import latest


def version_of(text: str) -> tuple[int, ...]:
    """580.95.05 to (580, 95, 5); what is no version is older than all."""
    parts = text.split(".")
    return tuple(int(p) for p in parts) if all(p.isdigit() for p in parts) else ()


def request_of(a: Allocation) -> Request:
    return Request(
        a.gpu_count, a.percent, a.memory_bytes, ComputeMode(a.compute_mode), a.same_node, a.model, tuple(sorted(a.selector.items())),
        version_of(a.min_driver_version) if a.min_driver_version else (),
    )  # fmt: skip


def gpus(*, gpu_ids: Iterable[UUID] | None = None, node_ids: Iterable[UUID] | None = None) -> Iterator[tuple[UUID, str, GpuRoom]]:
    """Pool, node's name and room of these GPUs, or of all that are in a pool, as the rows say. Partitions count until their node has reported them gone."""
    rows = Gpu.objects.filter(pool_id__isnull=False).exclude(node__state=NodeState.REMOVED)
    if gpu_ids is not None:
        rows = rows.filter(pk__in=list(gpu_ids))
    if node_ids is not None:
        rows = rows.filter(node_id__in=list(node_ids))
    for row in rows.values_list(*ROOM_COLUMNS):
        yield row[0], row[10], room_of(*row[1:])


ROOM_COLUMNS = (
    "pool_id", "pk", "node_id", "index", "memory_bytes", "taken_percent", "taken_memory_bytes", "model", "present", "labels",
    "node__name", "node__state", "node__labels", "node__driver_version",
)  # fmt: skip


def room_of(
    gpu_id: UUID, node_id: UUID, index: int, memory_bytes: int, taken_percent: int, taken_memory_bytes: int, model: str, present: bool, labels: dict[str, str],
    node: str, node_state: str, node_labels: dict[str, str], driver_version: str,
) -> GpuRoom:  # fmt: skip
    why = ""
    if not present:
        why = f"GPU {index} of {node} is gone"
    elif node_state != NodeState.READY:
        why = f"node {node} is {node_state}"
    return GpuRoom(
        gpu_id, node_id, memory_bytes, 100 - taken_percent, memory_bytes - taken_memory_bytes, not why, why, model, node_labels | labels,
        version_of(driver_version),
    )  # fmt: skip


def if_reachable(room: GpuRoom, node: str, unreachable: Collection[UUID]) -> GpuRoom:
    """Reachability is in no row."""
    return replace(room, usable=False, why_not=f"node {node} is unreachable") if room.usable and room.node_id in unreachable else room


def rooms() -> dict[UUID, list[GpuRoom]]:
    """Each pool's."""
    rows = list(gpus())
    unreachable = latest.unreachable({room.node_id for _, _, room in rows})
    found: dict[UUID, list[GpuRoom]] = {}
    for pool_id, node, room in rows:
        found.setdefault(pool_id, []).append(if_reachable(room, node, unreachable))
    return found


def subjects_of(a: Allocation) -> tuple[claims.Subject, ...]:
    """The project first: it is named before its department and the user when several limits are reached."""
    subjects = [claims.Subject(SubjectKind.PROJECT, a.project_id), claims.Subject(SubjectKind.USER, a.owner_id)]
    if a.project.department_id:
        subjects.append(claims.Subject(SubjectKind.DEPARTMENT, a.project.department_id))
    return tuple(subjects)


def waiter_of(a: Allocation, pools: dict[UUID, Pool]) -> claims.Waiter:
    pool = pools.get(a.pool_id) if a.pool_id else None
    chain = tuple(
        p
        for p in (*filter(None, [a.pool_id]), *map(UUID, pool.fallbacks if pool else ()))
        if p in pools and a.project_id in (pools[p].audience or {a.project_id})
    )
    return claims.Waiter(
        a.pk, request_of(a), chain, subjects_of(a), a.project_id, a.priority, a.preemptible, a.created_at,
        timedelta(seconds=a.lifetime_seconds) if a.lifetime_seconds else None, a.reservation_id,
    )  # fmt: skip


def holders(allocation_ids: Iterable[UUID] | None = None) -> dict[UUID, claims.Holder]:
    """Of these allocations, or of all."""
    shares: dict[UUID, list[Share]] = {}
    partitions = Partition.objects.filter(allocation__state__in=OCCUPYING)
    if allocation_ids is not None:
        partitions = partitions.filter(allocation_id__in=list(allocation_ids))
    for p in partitions.select_related("gpu").order_by("position"):
        shares.setdefault(p.allocation_id, []).append(Share(p.gpu_id, p.gpu.node_id, p.memory_bytes, p.compute_percent))
    rows = Allocation.objects.filter(pk__in=shares).select_related("project")
    return {a.pk: holder_of(a, tuple(shares[a.pk])) for a in rows}


NO_POOL = UUID(int=0)


def holder_of(a: Allocation, shares: tuple[Share, ...]) -> claims.Holder:
    started_at = a.active_at or a.created_at
    ends_at = started_at + timedelta(seconds=a.lifetime_seconds) if a.lifetime_seconds else None
    return claims.Holder(
        a.pk, a.placed_pool_id or a.pool_id or NO_POOL, shares, subjects_of(a), a.project_id, a.priority, a.preemptible, started_at,
        leaving=a.state == AllocationState.RELEASING or a.evict_at is not None, ends_at=ends_at, reservation_id=a.reservation_id,
    )  # fmt: skip


def entitlements() -> dict[claims.Subject, claims.Entitlement]:
    models: dict[str, type[User | Project | Department]] = {"user": User, "project": Project, "department": Department}
    rows = list(Quota.objects.all())
    field = {"user": "username", "project": "name", "department": "name"}
    ids = {kind: [q.subject_id for q in rows if q.subject_kind == kind] for kind in models}
    names = {kind: dict(model.objects.filter(pk__in=ids[kind]).values_list("pk", field[kind])) for kind, model in models.items()}
    return {
        claims.Subject(SubjectKind(q.subject_kind), q.subject_id): claims.Entitlement(
            names[q.subject_kind].get(q.subject_id, "that is gone"), q.quota_percent, q.limit_percent, q.borrows, q.weight
        )
        for q in rows
    }


def reservations(now: datetime) -> list[claims.Reservation]:
    return [
        claims.Reservation(r.pk, r.name, r.pool_id, r.project_id, Request(r.gpu_count, r.percent), r.starts_at, r.ends_at)
        for r in Reservation.objects.filter(ends_at__gt=now)
    ]


Kept = tuple[dict[UUID, list[GpuRoom]], dict[UUID, claims.Holder]]


def opened(kept: Kept | None = None) -> tuple[claims.Book, dict[UUID, tuple[Allocation, claims.Waiter]]]:
    """Everything as it is now, and who waits. `kept`: rooms and holders that need not be read."""
    now, pools = timezone.now(), {p.pk: p for p in Pool.objects.all()}
    free, held = kept or (rooms(), holders())
    waiting = {a.pk: (a, waiter_of(a, pools)) for a in Allocation.objects.filter(state=AllocationState.WAITING).select_related("project")}
    book = claims.Book(
        now,
        {p.pk: claims.PoolRooms(p.name, free.get(p.pk, []), [Policy(name) for name in p.policies]) for p in pools.values()},
        held,
        entitlements(),
        reservations(now),
        past_use(now),
    )
    return book, waiting
