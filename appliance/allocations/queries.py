"""Queries for allocations by id and for the queue."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Prefetch

from appliance.allocations.models import (
    IN_PROGRESS,
    Allocation,
    AllocationQuerySet,
    AllocationState,
    Partition,
)
from appliance.db.prepared import Select

MAX_PREPARED_IDS = 16
"""Each number of ids is a statement of its own, so larger sets use an ordinary query."""

ALLOCATIONS_BY_ID = Select(lambda ids: Allocation.objects.filter(pk__in=ids))
ALLOCATIONS_WITH_NAMES = Select(lambda ids: Allocation.objects.with_names().filter(pk__in=ids))
PARTITIONS_WITH_NAMES = Select(
    lambda ids: Partition.objects.with_names().filter(allocation_id__in=ids).order_by("position")
)
QUEUED_ALLOCATIONS = Select(lambda: Allocation.objects.filter(state=AllocationState.QUEUED))
RESIZED_ALLOCATIONS = Select(lambda: Allocation.objects.filter(resize_requested_at__isnull=False))
"""Without the state: SQLite would scan all active allocations."""


def allocation_by_id(allocation_id: UUID) -> Allocation:
    """Return an allocation. Raises Allocation.DoesNotExist."""
    if (found := ALLOCATIONS_BY_ID.first(ids=[allocation_id])) is None:
        raise Allocation.DoesNotExist
    return found


def waiting_allocations() -> list[Allocation]:
    """Return the requests in the queue, and the active allocations that wait to grow.

    A size with less memory is not granted during a suspension: the node would report the memory as
    free that the programs need when they go on.
    """
    growing = [
        a
        for a in RESIZED_ALLOCATIONS.objects()
        if a.state == AllocationState.ACTIVE
        and a.evict_at is None
        and a.suspension not in IN_PROGRESS
    ]
    return QUEUED_ALLOCATIONS.objects() + growing


def serializable_allocations() -> AllocationQuerySet:
    """Return a query set with everything that `AllocationSerializer` reads."""
    partitions = Partition.objects.with_names().order_by("position")
    return Allocation.objects.with_names().prefetch_related(Prefetch("partitions", partitions))


def load_serializable(ids: Sequence[UUID]) -> list[Allocation]:
    """Return the rows of `serializable_allocations` with prepared statements."""
    found, partitions = ALLOCATIONS_WITH_NAMES.objects(ids=ids), dict[UUID, list[Partition]]()
    for p in PARTITIONS_WITH_NAMES.objects(ids=ids):
        partitions.setdefault(p.allocation_id, []).append(p)
    for allocation in found:
        allocation.__dict__["_prefetched_objects_cache"] = {
            "partitions": partitions.get(allocation.pk, [])
        }
    return found
