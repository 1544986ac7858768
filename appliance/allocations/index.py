"""Scheduler index: the state on which the scheduler decides, kept in memory between ticks.

Reading 8,000 GPUs from the database for each request would be too slow. The database stays the
source of truth: the index reads pending changes of the change log, also those of rolled back
transactions, and the next tick reads just these rows again. Each second a sample of the index is
compared with the database (`verify_sample`).

Writer thread only. With PostgreSQL, several appliances may share the database, so nothing is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from django.conf import settings

from appliance.accounts.models import Department, Project, User
from appliance.allocations.active_allocations import load_active_allocations
from appliance.allocations.placement import GpuCapacity, PackedGpus
from appliance.allocations.snapshot import ActiveAllocations
from appliance.allocations.snapshot_gpus import apply_reachability, load_gpus, load_pool_gpus
from appliance.allocations.snapshot_loader import Rules, SchedulerState, load_rules
from appliance.db import change_log
from appliance.db.change_log import Change, Topic
from appliance.pools.models import Pool, ProjectUse, Quota, Reservation
from appliance.telemetry import reachability

log = logging.getLogger(__name__)

SAMPLE_SIZE = 50
RULES_SAMPLE_INTERVAL = 10
"""Rules are verified with every tenth sample."""


@dataclass
class Index:
    complete: bool = False
    pool_of: dict[UUID, UUID] = field(default_factory=dict)
    rows: dict[UUID, tuple[str, GpuCapacity]] = field(default_factory=dict)
    """GPU to node name and capacity, without reachability."""
    gpus: dict[UUID, dict[UUID, GpuCapacity]] = field(default_factory=dict)
    """Pool to GPU to capacity."""
    packed: dict[UUID, PackedGpus] = field(default_factory=dict)
    """Pool to GPUs in pack order."""
    gpus_of_node: dict[UUID, set[UUID]] = field(default_factory=dict)
    unreachable: set[UUID] = field(default_factory=set)
    reachability_version: int = -1
    """`reachability.recoveries` at the last check of reachability."""
    reachability_valid_until: float = 0.0
    """Monotonic time before which no reachable node can become unreachable."""
    active: ActiveAllocations = field(default_factory=ActiveAllocations)
    stale_gpus: set[UUID] = field(default_factory=set)
    stale_nodes: set[UUID] = field(default_factory=set)
    stale_allocations: set[UUID] = field(default_factory=set)
    rules: Rules | None = None
    """None: changed since they were read."""
    samples: int = 0
    sample_offset: int = 0
    mismatches: int = 0

    def invalidate(self, change: Change) -> None:
        """Mark what the change affects as stale. The next `refresh` reads it again."""
        if change.topic is Topic.SCHEDULING_RULES:
            self.rules = None
        elif not self.complete:
            return
        elif change.topic is Topic.GPU_CAPACITY:
            self.stale_gpus.add(change.object_id)
        elif change.topic is Topic.NODE_CAPACITY:
            self.stale_nodes.add(change.object_id)
        else:
            self.stale_allocations.add(change.object_id)

    def reset(self) -> None:
        self.__dict__.update(Index().__dict__)

    def refresh(self) -> SchedulerState:
        """Read the stale rows and return the state. The result is valid until the next call."""
        if settings.ENVIRONMENT.database:
            return load_pool_gpus(), load_active_allocations(), load_rules()
        if not self.complete:
            self._put_gpus(load_gpus())
            self.active = load_active_allocations()
            self.complete = True
        self._refresh_gpus()
        self._refresh_reachability()  # after the GPUs, to include new nodes
        self._refresh_active()
        self.rules = self.rules or load_rules()
        return self.packed, self.active.copy(), self.rules

    def _refresh_reachability(self) -> None:
        if (
            self.reachability_version == reachability.recoveries
            and time.monotonic() < self.reachability_valid_until
        ):
            return
        self.reachability_version = reachability.recoveries
        now, self.reachability_valid_until = reachability.unreachable_until(self.gpus_of_node)
        changed, self.unreachable = now ^ self.unreachable, now
        for gpu_id in (g for node_id in changed for g in self.gpus_of_node[node_id]):
            self._update_capacity(gpu_id)

    def _update_capacity(self, gpu_id: UUID) -> None:
        node, gpu = self.rows[gpu_id]
        pool_id = self.pool_of[gpu_id]
        gpus = self.gpus.setdefault(pool_id, {})
        packed = self.packed.setdefault(pool_id, PackedGpus())
        if gpu_id in gpus:
            packed.discard(gpus[gpu_id])
        gpus[gpu_id] = apply_reachability(gpu, node, self.unreachable)
        packed.add(gpus[gpu_id])

    def _refresh_gpus(self) -> None:
        for node_id in self.stale_nodes:
            self.stale_gpus |= self.gpus_of_node.get(node_id, set())
        if self.stale_nodes:
            self._put_gpus(load_gpus(node_ids=self.stale_nodes))
        if self.stale_gpus:
            self._drop_gpus(self.stale_gpus)
            self._put_gpus(load_gpus(gpu_ids=self.stale_gpus))
        self.stale_nodes.clear()
        self.stale_gpus.clear()

    def _drop_gpus(self, gpu_ids: Iterable[UUID]) -> None:
        for gpu_id in gpu_ids:
            if (pool_id := self.pool_of.pop(gpu_id, None)) is not None:
                gpu = self.gpus[pool_id].pop(gpu_id)
                self.packed[pool_id].discard(gpu)
                self.gpus_of_node[gpu.node_id].discard(gpu_id)
                del self.rows[gpu_id]

    def _put_gpus(self, found: Iterable[tuple[UUID, str, GpuCapacity]]) -> None:
        for pool_id, node, gpu in found:
            self._drop_gpus([gpu.gpu_id])
            self.pool_of[gpu.gpu_id] = pool_id
            self.rows[gpu.gpu_id] = (node, gpu)
            if gpu.node_id not in self.gpus_of_node:
                self.gpus_of_node[gpu.node_id] = set()
                self.reachability_version = -1
            self.gpus_of_node[gpu.node_id].add(gpu.gpu_id)
            self._update_capacity(gpu.gpu_id)

    def _refresh_active(self) -> None:
        if not self.stale_allocations:
            return
        fresh = load_active_allocations(self.stale_allocations)
        for allocation_id in self.stale_allocations:
            self.active.discard(allocation_id)
        for allocation_id, allocation in fresh.items():
            self.active[allocation_id] = allocation
        self.stale_allocations.clear()

    def verify_sample(self) -> None:
        """Compare a sample of GPUs, and sometimes the rules, with the database.

        A difference means that the change log lacks a change. It is logged and repaired.
        """
        if not self.complete:
            return
        self.refresh()
        self.samples += 1
        if self.samples % RULES_SAMPLE_INTERVAL == 0:
            self._verify_rules()
        begin = self.sample_offset
        sample = list(islice(self.pool_of, begin, begin + SAMPLE_SIZE))
        self.sample_offset = begin + SAMPLE_SIZE if len(sample) == SAMPLE_SIZE else 0
        self._verify_gpus(sample)

    def _verify_rules(self) -> None:
        if self.rules != (rules := load_rules()):
            self.mismatches += 1
            self.rules = rules
            log.error("scheduler index: pools, quotas or reservations were outdated; reloaded")

    def _verify_gpus(self, gpu_ids: list[UUID]) -> None:
        found = {
            gpu.gpu_id: (pool_id, node, gpu) for pool_id, node, gpu in load_gpus(gpu_ids=gpu_ids)
        }
        wrong = [g for g in gpu_ids if found.get(g) != (self.pool_of[g], *self.rows[g])]
        if wrong:
            self.mismatches += len(wrong)
            log.error(
                "scheduler index: GPUs were outdated; reloading: count=%d first=%s",
                len(wrong),
                wrong[0],
            )
            self.stale_gpus.update(wrong)


index = Index()
change_log.record_changes_of(
    Pool, Quota, Reservation, ProjectUse, Project, Department, User, topic=Topic.SCHEDULING_RULES
)
change_log.subscribe_pending(
    lambda change: index.invalidate(change),
    Topic.ALLOCATION_HOLDINGS,
    Topic.GPU_CAPACITY,
    Topic.NODE_CAPACITY,
    Topic.SCHEDULING_RULES,
)
