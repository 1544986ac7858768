"""Notices of eviction that allocations have for one that waits, and their withdrawal.

Each tick of the scheduler chooses again, and takes those with notice first. A notice that no longer
serves a request that waits is withdrawn, whatever has changed. If another request needs the same
allocation, the notice is for that one from then on. Its time stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from appliance.activity.events import SYSTEM
from appliance.allocations import lifecycle
from appliance.allocations.lifecycle import PREEMPTED
from appliance.allocations.models import RUNNING, Allocation
from appliance.allocations.queries import ALLOCATIONS_BY_ID
from appliance.allocations.snapshot import ActiveAllocations
from appliance.allocations.snapshot_loader import is_waiting
from appliance.db.prepared import Select
from appliance.db.writer import run_each_in_savepoint

NOTICED = Select(
    lambda: Allocation.objects.filter(
        state__in=[str(state) for state in RUNNING], evict_at__isnull=False
    ).order_by("pk")  # same order everywhere: no deadlock
)


def preemption_reason(allocation: Allocation) -> str:
    """Return the reason of a notice, without names: a victim may belong to another project."""
    return f"{PREEMPTED}{allocation.pk}"


def preempted_allocations() -> dict[UUID, Allocation]:
    """Return the allocations that have notice because of one that waits, or has waited, by id."""
    return {a.pk: a for a in NOTICED.objects() if a.end_reason.startswith(PREEMPTED)}


def has_lost_its_cause(reason: str) -> bool:
    """Return whether a notice with this reason is for an allocation that waits no longer."""
    if not reason.startswith(PREEMPTED):
        return False
    cause = ALLOCATIONS_BY_ID.first(ids=[UUID(reason.removeprefix(PREEMPTED))])
    return cause is None or not is_waiting(cause)


def spare(active: ActiveAllocations, preempted: Iterable[UUID]) -> None:
    """Let the scheduler decide as if these allocations went on, but take them first."""
    for allocation_id in preempted:
        if found := active.get(allocation_id):
            active[allocation_id] = replace(found, leaving=False, noticed=True)


def withdraw_notices(spared: Mapping[UUID, Allocation]) -> None:
    """Let these allocations go on."""
    run_each_in_savepoint(
        "scheduler: withdrawal of notice",
        spared.values(),
        lambda a: lifecycle.withdraw_eviction(a, actor=SYSTEM),
        lambda a: a.pk,
    )
