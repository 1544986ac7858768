"""Notices of eviction that allocations have for one that waits, and their withdrawal."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from uuid import UUID

from django.db.models import QuerySet

from appliance.activity.events import SYSTEM
from appliance.allocations import lifecycle
from appliance.allocations.index import index
from appliance.allocations.models import RUNNING, Allocation
from appliance.allocations.queue import try_pools
from appliance.allocations.snapshot import Wait
from appliance.allocations.snapshot_loader import load_snapshot
from appliance.inventory.models import NodeState


def preemption_reason(allocation: Allocation) -> str:
    """Return the reason of a notice, without names: a victim may belong to another project."""
    return f"preempted by allocation {allocation.pk}"


def victims_of(allocation: Allocation) -> QuerySet[Allocation]:
    """Return the allocations that have notice because of this one."""
    rows = Allocation.objects.filter(state__in=RUNNING, end_reason=preemption_reason(allocation))
    return rows.exclude(evict_at=None)


def withdraw_notices(allocation: Allocation, needed: Container[UUID] = ()) -> None:
    """Let the victims of an allocation go on that no longer waits, except the needed ones.

    Those on a node that drains end all the same. If another request waits for the same victims, the
    next tick gives them notice again.
    """
    for victim in victims_of(allocation).exclude(partitions__gpu__node__state=NodeState.DRAINING):
        if victim.pk not in needed:
            lifecycle.withdraw_eviction(victim, actor=SYSTEM)


def needed_victims(allocation: Allocation) -> Container[UUID]:
    """Return which allocations would get notice for a changed resize if it was the first one."""
    snapshot, queued = load_snapshot(index.refresh(), [allocation])
    if allocation.pk not in queued:
        return ()
    snapshot = replace(snapshot, active=snapshot.active.copy())
    for victim in victims_of(allocation):
        if found := snapshot.active.get(victim.pk):
            snapshot.active[victim.pk] = replace(found, leaving=False)
    decision = try_pools(snapshot, queued[allocation.pk][1], {})
    return decision.evictions if isinstance(decision, Wait) else ()
