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
    over_bytes: int
    compute_percent: int
    generation: int
    resizing: bool
    gpu__node__applied_generation: int

    @property
    def node_id(self) -> UUID:
        return self.gpu__node_id

    @property
    def applied_generation(self) -> int:
        return self.gpu__node__applied_generation

    @property
    def occupied_bytes(self) -> int:
        return self.memory_bytes + self.over_bytes


ALLOCATION = GrantedPartition._fields.index("allocation_id")
RESIZING = GrantedPartition._fields.index("resizing")
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


def load_changing_partitions(
    node_id: UUID, states: Collection[str]
) -> dict[UUID, list[GrantedPartition]]:
    """Return the partitions on a node of allocations in the given states, or that are resized.

    They are grouped by allocation, in the order of its grant.
    """
    rows = SELECT_BY_NODE.rows(node_id=node_id)
    changing = {row[ALLOCATION] for row in rows if row[-1] in states or row[RESIZING]}
    found: dict[UUID, list[GrantedPartition]] = {}
    for *row, _ in rows:
        if row[ALLOCATION] in changing:
            found.setdefault(row[ALLOCATION], []).append(GrantedPartition(*row))
    return found
