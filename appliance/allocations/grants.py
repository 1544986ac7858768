"""Load partitions together with the generation that their node has applied."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple
from uuid import UUID

from appliance.allocations.models import Partition
from appliance.db.prepared import Select


class GrantedPartition(NamedTuple):
    """Columns of a partition and its node; the fields are Django lookups."""

    pk: UUID
    allocation_id: UUID
    gpu_id: UUID
    gpu__node_id: UUID
    memory_bytes: int
    compute_percent: int
    generation: int
    gpu__node__applied_generation: int

    @property
    def node_id(self) -> UUID:
        return self.gpu__node_id

    @property
    def applied_generation(self) -> int:
        return self.gpu__node__applied_generation


SELECT_BY_ALLOCATION = Select(
    lambda allocation_ids: (
        Partition.objects.filter(allocation_id__in=allocation_ids)
        .order_by("position")
        .values_list(*GrantedPartition._fields)
    )
)
SELECT_BY_NODE = Select(
    lambda node_id: (
        Partition.objects.filter(gpu__node_id=node_id)
        .order_by("position")
        .values_list(*GrantedPartition._fields, "allocation__state")
    )
)


def load_partitions(allocation_ids: Iterable[UUID]) -> dict[UUID, list[GrantedPartition]]:
    """Return the partitions of each allocation that has any, in order of position."""
    found: dict[UUID, list[GrantedPartition]] = {}
    ids = list(allocation_ids)
    for row in SELECT_BY_ALLOCATION.rows(allocation_ids=ids) if ids else ():
        partition = GrantedPartition(*row)
        found.setdefault(partition.allocation_id, []).append(partition)
    return found


def load_node_partitions(
    node_id: UUID, states: Collection[str]
) -> dict[UUID, list[GrantedPartition]]:
    """Return the partitions on a node by allocation, for allocations in the given states."""
    found: dict[UUID, list[GrantedPartition]] = {}
    for *row, state in SELECT_BY_NODE.rows(node_id=node_id):
        if state in states:
            partition = GrantedPartition(*row)
            found.setdefault(partition.allocation_id, []).append(partition)
    return found
