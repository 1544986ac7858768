"""How much there is, how much of it can be given, is given, works, and is held for nothing. GPUs as floats, memory in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from appliance.inventory.models import GpuQuerySet, NodeState
from appliance.telemetry import latest, series


@dataclass
class Amount:
    capacity: float = 0
    """Of what is there."""
    allocatable: float = 0
    """Of that, what lies on ready and reachable nodes, in a pool: given or not."""
    allocated: float = 0
    used: float = 0
    """As measured, by whomever."""
    idle: float = 0
    """Allocated, and not used: of each GPU by itself, so that a busy one does not hide an idle one."""

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


class Row(NamedTuple):
    id: UUID
    model: str
    present: bool
    memory_bytes: int
    taken_percent: int
    taken_memory_bytes: int
    node_id: UUID
    node: str
    node_state: str
    pool_id: UUID | None
    pool: str | None
    site_id: UUID | None
    site: str | None


COLUMNS = (
    "pk", "model", "present", "memory_bytes", "taken_percent", "taken_memory_bytes", "node_id", "node__name", "node__state", "pool_id", "pool__name",
    "node__site_id", "node__site__name",
)  # fmt: skip
NO_POOL, NO_SITE = "in no pool", "at no site"
GROUPS: dict[str, Callable[[Row], tuple[UUID | None, str]]] = {
    "pool": lambda r: (r.pool_id, r.pool or NO_POOL),
    "node": lambda r: (r.node_id, r.node),
    "site": lambda r: (r.site_id, r.site or NO_SITE),
    "model": lambda r: (None, r.model),
}


def measured(gpus: GpuQuerySet, by: str) -> tuple[list[Capacity], Capacity]:
    """Each group by name, and all together. `by`: one of GROUPS. Reads the database."""
    rows = [Row(*row) for row in gpus.exclude(node__state=NodeState.REMOVED).values_list(*COLUMNS)]
    silent, total, found = (
        latest.unreachable({r.node_id for r in rows}),
        Capacity(None, "all"),
        dict[tuple[UUID | None, str], Capacity](),
    )
    for r in rows:
        group = GROUPS[by](r)
        add(r, r.node_id in silent, (found.setdefault(group, Capacity(*group)), total))
    return sorted(found.values(), key=lambda c: c.name), total


def add(r: Row, silent: bool, to: Iterable[Capacity]) -> None:
    """A GPU that is gone has no capacity; what is allocated of it is still said."""
    utilisation_percent, used_bytes = (
        series.readings(r.id, ("utilisation_percent", "memory_used_bytes"))
        if r.present and not silent
        else (0.0, 0.0)
    )
    given = r.present and not silent and r.node_state == NodeState.READY and r.pool_id is not None
    for c in to:
        c.gpus.add(
            capacity=float(r.present),
            allocatable=given,
            allocated=r.taken_percent / 100,
            used=utilisation_percent / 100,
        )
        c.memory_bytes.add(
            capacity=r.memory_bytes if r.present else 0,
            allocatable=given,
            allocated=r.taken_memory_bytes,
            used=used_bytes,
        )
