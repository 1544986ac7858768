"""Load active allocations, and the sizes of their partitions, from the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from appliance.allocations.models import OCCUPYING, AllocationState, Partition
from appliance.allocations.placement import Share
from appliance.allocations.queries import MAX_PREPARED_IDS
from appliance.allocations.sizes import SizedPartition
from appliance.allocations.snapshot import ActiveAllocation, ActiveAllocations, Subject
from appliance.db.prepared import Select
from appliance.pools.subject_kind import SubjectKind

NO_POOL = UUID(int=0)


class ShareRow(NamedTuple):
    """Columns of a partition and its allocation; the fields are Django lookups."""

    allocation_id: UUID
    gpu_id: UUID
    gpu__node_id: UUID
    memory_bytes: int
    over_bytes: int
    compute_percent: int
    gpu__memory_bytes: int
    allocation__state: str
    allocation__placed_pool_id: UUID | None
    allocation__pool_id: UUID | None
    allocation__project_id: UUID
    allocation__owner_id: UUID
    allocation__project__department_id: UUID | None
    allocation__priority: int
    allocation__preemptible: bool
    allocation__active_at: datetime | None
    allocation__created_at: datetime
    allocation__lifetime_seconds: int | None
    allocation__evict_at: datetime | None
    allocation__reservation_id: UUID | None


def share_rows() -> QuerySet[Partition, tuple[Any, ...]]:
    return Partition.objects.order_by("position").values_list(*ShareRow._fields)


SELECT_SHARES = Select(lambda allocation_ids: share_rows().filter(allocation_id__in=allocation_ids))
"""Does not filter by state: SQLite would scan all occupying allocations first."""


def load_active_allocations(allocation_ids: Iterable[UUID] | None = None) -> ActiveAllocations:
    """Return the given allocations that occupy GPUs, or all of them."""
    rows: Iterable[Sequence[Any]]
    if allocation_ids is None:
        rows = share_rows().filter(allocation__state__in=OCCUPYING)
    elif len(ids := list(allocation_ids)) <= MAX_PREPARED_IDS:
        rows = SELECT_SHARES.rows(allocation_ids=ids) if ids else ()
    else:
        rows = share_rows().filter(allocation_id__in=ids)
    shares: dict[UUID, list[Share]] = {}
    last: dict[UUID, ShareRow] = {}
    for columns in rows:
        row = ShareRow(*columns)
        shares.setdefault(row.allocation_id, []).append(
            Share(
                row.gpu_id,
                row.gpu__node_id,
                row.memory_bytes + row.over_bytes,
                row.compute_percent,
                row.gpu__memory_bytes,
            )
        )
        last[row.allocation_id] = row
    return ActiveAllocations(
        active_allocation(row, tuple(shares[i]))
        for i, row in last.items()
        if row.allocation__state in OCCUPYING
    )


SELECT_SIZED = Select(
    lambda allocation_ids: (
        Partition.objects.filter(allocation_id__in=allocation_ids)
        .order_by("position")
        .values_list(*SizedPartition._fields)
    )
)


def load_sized_partitions(allocation_ids: Sequence[UUID]) -> dict[UUID, list[SizedPartition]]:
    """Return the partitions of allocations with the sizes of their GPUs, in order of position."""
    found: dict[UUID, list[SizedPartition]] = {}
    if not allocation_ids:
        return found
    read = SELECT_SIZED.rows if len(allocation_ids) <= MAX_PREPARED_IDS else SELECT_SIZED.build
    for row in read(allocation_ids=list(allocation_ids)):
        partition = SizedPartition(*row)
        found.setdefault(partition.allocation_id, []).append(partition)
    return found


def active_allocation(row: ShareRow, shares: tuple[Share, ...]) -> ActiveAllocation:
    started_at = row.allocation__active_at or row.allocation__created_at
    lifetime = row.allocation__lifetime_seconds
    end_of_lifetime = started_at + timedelta(seconds=lifetime) if lifetime else None
    releasing = row.allocation__state == AllocationState.RELEASING
    return ActiveAllocation(
        row.allocation_id,
        row.allocation__placed_pool_id or row.allocation__pool_id or NO_POOL,
        shares,
        quota_subjects(
            row.allocation__project_id,
            row.allocation__owner_id,
            row.allocation__project__department_id,
        ),
        row.allocation__project_id,
        row.allocation__priority,
        row.allocation__preemptible,
        started_at,
        leaving=releasing or row.allocation__evict_at is not None,
        ends_at=min(filter(None, (row.allocation__evict_at, end_of_lifetime)), default=None),
        reservation_id=row.allocation__reservation_id,
    )


def quota_subjects(
    project_id: UUID, owner_id: UUID, department_id: UUID | None
) -> tuple[Subject, ...]:
    """Return the subjects whose limits apply, in the order in which violations are reported."""
    subjects = (Subject(SubjectKind.PROJECT, project_id), Subject(SubjectKind.USER, owner_id))
    if department_id:
        return (*subjects, Subject(SubjectKind.DEPARTMENT, department_id))
    return subjects
