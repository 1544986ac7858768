"""What the queue decides about, kept in memory between rounds: reading eight thousand GPUs for each request would take all day.

Rows are the truth. Whoever changes one says so (`touch_*`) inside the transaction, and before the next round just these rows are read again. What a rollback
undid is read again, too. A few rows a second are compared with what is kept (`check_some`). Only on the thread that writes; with several appliances on one
database nothing is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models.signals import post_delete, post_save

from appliance.accounts.models import Department, Project, User
from appliance.allocations import book, claims
from appliance.allocations.placement import GpuRoom, PackedRooms
from appliance.inventory import changes
from appliance.pools.models import Pool, ProjectUse, Quota, Reservation
from appliance.telemetry import latest
from appliance.writer import on_rollback

log = logging.getLogger(__name__)

CHECKED_AT_ONCE = 50
RULES_CHECKED_EVERY = 10
"""Times."""


@dataclass
class Index:
    complete: bool = False
    pool_of: dict[UUID, UUID] = field(default_factory=dict)
    as_rows_say: dict[UUID, tuple[str, GpuRoom]] = field(default_factory=dict)
    """GPU to its node's name and its room, were the node reachable."""
    rooms: dict[UUID, dict[UUID, GpuRoom]] = field(default_factory=dict)
    """Pool to GPU to what is left of it."""
    packed: dict[UUID, PackedRooms] = field(default_factory=dict)
    """The same in order."""
    gpus_of_node: dict[UUID, set[UUID]] = field(default_factory=dict)
    unreachable: set[UUID] = field(default_factory=set)
    looked_at: int = -1
    """`latest.returns` when reachability was last looked at."""
    nobody_falls_silent_until: float = 0.0
    holders: claims.Holders = field(default_factory=claims.Holders)
    stale_gpus: set[UUID] = field(default_factory=set)
    stale_nodes: set[UUID] = field(default_factory=set)
    stale_allocations: set[UUID] = field(default_factory=set)
    unsettled: list[tuple[set[UUID], UUID]] = field(default_factory=list)
    """What was touched in the open transaction, with the set it belongs to."""
    rules: book.Rules | None = None
    """None: they changed since they were read."""
    checks: int = 0
    checked: int = 0
    """So many were compared with their rows in this round."""
    mismatches: int = 0

    def touch(self, stale: set[UUID], ids: Iterable[UUID]) -> None:
        if not self.complete:
            return
        transaction.on_commit(self.settle)
        for i in ids:
            stale.add(i)
            self.unsettled.append((stale, i))

    def settle(self) -> None:
        self.unsettled.clear()

    def rolled_back(self) -> None:
        self.rules = None
        for stale, i in self.unsettled:
            stale.add(i)

    def forget(self) -> None:
        self.__dict__.update(Index().__dict__)

    def refreshed(self) -> book.Kept:
        """Pool to its rooms, who holds what, and the rules. Reads the rows that changed. Good until the next call."""
        if settings.ENVIRONMENT.database:
            return book.rooms(), book.holders(), book.rules()
        if not self.complete:
            self._put_gpus(book.gpus())
            self.holders = book.holders()
            self.complete = True
        self._refresh_gpus()
        self._notice_reachability()  # of the nodes that are new, too
        self._refresh_holders()
        self.rules = self.rules or book.rules()
        return self.packed, self.holders.copy(), self.rules

    def _notice_reachability(self) -> None:
        if self.looked_at == latest.returns and time.monotonic() < self.nobody_falls_silent_until:
            return
        self.looked_at = latest.returns
        now, self.nobody_falls_silent_until = latest.unreachable_until(self.gpus_of_node)
        changed, self.unreachable = now ^ self.unreachable, now
        for gpu_id in (g for node_id in changed for g in self.gpus_of_node[node_id]):
            self._show(gpu_id)

    def _show(self, gpu_id: UUID) -> None:
        node, room = self.as_rows_say[gpu_id]
        rooms, packed = (
            self.rooms.setdefault(pool_id := self.pool_of[gpu_id], {}),
            self.packed.setdefault(pool_id, PackedRooms()),
        )
        if gpu_id in rooms:
            packed.drop(rooms[gpu_id])
        rooms[gpu_id] = book.if_reachable(room, node, self.unreachable)
        packed.put(rooms[gpu_id])

    def _refresh_gpus(self) -> None:
        for node_id in self.stale_nodes:
            self.stale_gpus |= self.gpus_of_node.get(node_id, set())
        if self.stale_nodes:
            self._put_gpus(book.gpus(node_ids=self.stale_nodes))
        if rest := self.stale_gpus:
            self._drop_gpus(rest)
            self._put_gpus(book.gpus(gpu_ids=rest))
        self.stale_nodes.clear()
        self.stale_gpus.clear()

    def _drop_gpus(self, gpu_ids: Iterable[UUID]) -> None:
        for gpu_id in gpu_ids:
            if (pool_id := self.pool_of.pop(gpu_id, None)) is not None:
                room = self.rooms[pool_id].pop(gpu_id)
                self.packed[pool_id].drop(room)
                self.gpus_of_node[room.node_id].discard(gpu_id)
                del self.as_rows_say[gpu_id]

    def _put_gpus(self, found: Iterable[tuple[UUID, str, GpuRoom]]) -> None:
        for pool_id, node, room in found:
            self._drop_gpus([room.gpu_id])
            self.pool_of[room.gpu_id] = pool_id
            self.as_rows_say[room.gpu_id] = (node, room)
            if room.node_id not in self.gpus_of_node:
                self.gpus_of_node[room.node_id] = set()
                self.looked_at = -1
            self.gpus_of_node[room.node_id].add(room.gpu_id)
            self._show(room.gpu_id)

    def _refresh_holders(self) -> None:
        if self.stale_allocations:
            fresh = book.holders(self.stale_allocations)
            for allocation_id in self.stale_allocations:
                self.holders.take_out(allocation_id)
            for allocation_id, holder in fresh.items():
                self.holders[allocation_id] = holder
            self.stale_allocations.clear()

    def check_some(self) -> None:
        """Compares the rules and a few GPUs with their rows; what differs is a change that nobody told of: said in the log and mended."""
        if not self.complete:
            return
        self.refreshed()
        chosen = list(islice(self.pool_of, self.checked, self.checked + CHECKED_AT_ONCE))
        self.checked = self.checked + CHECKED_AT_ONCE if len(chosen) == CHECKED_AT_ONCE else 0
        rows = {
            room.gpu_id: (pool_id, node, room) for pool_id, node, room in book.gpus(gpu_ids=chosen)
        }
        wrong = [g for g in chosen if rows.get(g) != (self.pool_of[g], *self.as_rows_say[g])]
        self.checks += 1
        if self.checks % RULES_CHECKED_EVERY == 0 and self.rules != (rules := book.rules()):
            self.mismatches += 1
            self.rules = rules
            log.error(
                "pools, quotas or reservations were not as the rows say; they were read again"
            )
        if wrong:
            self.mismatches += len(wrong)
            log.error(
                "%d GPUs were not as the rows say, the first is %s; they were read again",
                len(wrong),
                wrong[0],
            )
            self.stale_gpus.update(wrong)


index = Index()
on_rollback(lambda: index.rolled_back())


def touch_gpus(gpu_ids: Iterable[UUID]) -> None:
    index.touch(index.stale_gpus, gpu_ids)


def touch_nodes(node_ids: Iterable[UUID]) -> None:
    index.touch(index.stale_nodes, node_ids)


def touch_allocation(allocation_id: UUID) -> None:
    index.touch(index.stale_allocations, [allocation_id])


def touch_rules(**_: Any) -> None:
    index.rules = None


changes.listen(gpus=touch_gpus, nodes=touch_nodes)
for _model in (Pool, Quota, Reservation, ProjectUse, Project, Department, User):
    post_save.connect(touch_rules, sender=_model, dispatch_uid=f"index-{_model.__name__}-save")
    post_delete.connect(touch_rules, sender=_model, dispatch_uid=f"index-{_model.__name__}-delete")
