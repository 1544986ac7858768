"""Capacity of visible GPUs: total, allocatable, allocated, used and idle.

GPUs are counted as floats, memory in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from appliance.inventory.models import GpuQuerySet, NodeState
from appliance.telemetry import reachability, series


@dataclass
class Amount:
    capacity: float = 0
    """Present in nodes."""
    allocatable: float = 0
    """Part of the capacity in pools and on ready, reachable nodes, allocated or not."""
    allocated: float = 0
    used: float = 0
    """Measured use, also by other programs on the node."""
    idle: float = 0
    """Allocated minus used, summed over GPUs: use beyond the allocation of one GPU never hides
    idle capacity of another."""

    def add(self, *, capacity: float, allocatable: bool, allocated: float, used: float) -> None:
        self.capacity += capacity
        self.allocatable += capacity if allocatable else 0
        self.allocated += allocated
        self.used += used
        self.idle += max(allocated - used, 0)


@dataclass
class Capacity:
    id: UUID | None
    name: str
    gpus: Amount = field(default_factory=Amount)
    memory_bytes: Amount = field(default_factory=Amount)


class GpuRow(NamedTuple):
    """Columns of a GPU; the fields are Django lookups."""

    pk: UUID
    model: str
    present: bool
    duplicate_of_id: UUID | None
    memory_bytes: int
    taken_percent: int
    taken_memory_bytes: int
    node_id: UUID
    node__name: str
    node__state: str
    pool_id: UUID | None
    pool__name: str | None
    node__site_id: UUID | None
    node__site__name: str | None


NO_POOL, NO_SITE = "in no pool", "at no site"
GROUPS: dict[str, Callable[[GpuRow], tuple[UUID | None, str]]] = {
    "pool": lambda r: (r.pool_id, r.pool__name or NO_POOL),
    "node": lambda r: (r.node_id, r.node__name),
    "site": lambda r: (r.node__site_id, r.node__site__name or NO_SITE),
    "model": lambda r: (None, r.model),
}


def measure_capacity(gpus: GpuQuerySet, by: str) -> tuple[list[Capacity], Capacity]:
    """Return the capacity of each group, by name, and the total. `by` is a key of GROUPS."""
    rows = [
        GpuRow(*row)
        for row in gpus.exclude(node__state=NodeState.REMOVED).values_list(*GpuRow._fields)
    ]
    unreachable = reachability.unreachable({r.node_id for r in rows})
    total = Capacity(None, "all")
    groups: dict[tuple[UUID | None, str], Capacity] = {}
    for row in rows:
        key = GROUPS[by](row)
        add_gpu(
            row, row.node_id not in unreachable, (groups.setdefault(key, Capacity(*key)), total)
        )
    return sorted(groups.values(), key=lambda c: c.name), total


def add_gpu(row: GpuRow, reachable: bool, capacities: Iterable[Capacity]) -> None:
    """Add a GPU.

    A missing GPU, and a duplicate of another node's, has no capacity, but its allocated share
    still counts.
    """
    present = row.present and row.duplicate_of_id is None
    utilisation_percent, used_bytes = (
        series.latest_values(row.pk, ("utilisation_percent", "memory_used_bytes"))
        if present and reachable
        else (0.0, 0.0)
    )
    allocatable = (
        present and reachable and row.node__state == NodeState.READY and row.pool_id is not None
    )
    for c in capacities:
        c.gpus.add(
            capacity=float(present),
            allocatable=allocatable,
            allocated=row.taken_percent / 100,
            used=utilisation_percent / 100,
        )
        c.memory_bytes.add(
            capacity=row.memory_bytes if present else 0,
            allocatable=allocatable,
            allocated=row.taken_memory_bytes,
            used=used_bytes,
        )
