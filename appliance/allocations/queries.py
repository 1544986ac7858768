"""Queries for allocations by id."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Prefetch

from appliance.allocations.models import Allocation, AllocationQuerySet, Partition
from appliance.db.prepared import Select

MAX_PREPARED_IDS = 16
"""Each number of ids is a statement of its own, so larger sets use an ordinary query."""

ALLOCATIONS_BY_ID = Select(lambda ids: Allocation.objects.filter(pk__in=ids))
ALLOCATIONS_WITH_NAMES = Select(lambda ids: Allocation.objects.with_names().filter(pk__in=ids))
PARTITIONS_WITH_NAMES = Select(
    lambda ids: Partition.objects.with_names().filter(allocation_id__in=ids).order_by("position")
)


def allocation_by_id(allocation_id: UUID) -> Allocation:
    """Return an allocation. Raises Allocation.DoesNotExist."""
    if (found := ALLOCATIONS_BY_ID.first(ids=[allocation_id])) is None:
        raise Allocation.DoesNotExist
    return found


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
