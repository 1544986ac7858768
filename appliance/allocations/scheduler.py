"""Scheduler ticks: apply the decisions of `queue.decide` to the database."""

from __future__ import annotations

import logging
from functools import partial
from uuid import UUID

from django.db import IntegrityError, OperationalError

from appliance.activity.tasks import task_log
from appliance.allocations import lifecycle, queue, resizing, snapshot_loader
from appliance.allocations.actions import older_node_refusals
from appliance.allocations.eviction import evict
from appliance.allocations.index import index
from appliance.allocations.models import Allocation, AllocationState
from appliance.allocations.preemption import (
    preempted_allocations,
    preemption_reason,
    spare,
    withdraw_notices,
)
from appliance.allocations.snapshot import Start, Wait, WaitingRule
from appliance.api.errors import ApplianceError, Code
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import run_each_in_savepoint, run_in_savepoint, write_transaction
from appliance.runtime import disk_space
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import AllocationSettings

log = logging.getLogger(__name__)

FAILED = Wait(
    WaitingRule.ERROR, "The appliance failed to grant the request and tries again; see its log."
)


@write_transaction
def run_tick() -> dict[UUID, Wait]:
    """Start queued allocations, grow others, evict victims and update the reasons of the rest.

    Allocations that have notice for one that waits go on if none needs them any more. Returns the
    decisions on those that wait. While the disk is full the queue stays as it is.
    """
    waits: dict[UUID, Wait] = {}
    spared = preempted_allocations()  # before the queue, to which others add the cause first
    rows = snapshot_loader.waiting_allocations()
    if not (rows or spared) or disk_space.refuses_grants():
        return waits
    snapshot, queued = snapshot_loader.load_snapshot(index.refresh(), rows)
    spare(snapshot.active, spared)
    left_out = [row for row in rows if row.pk not in queued]
    refusals = older_node_refusals([row.pk for row in left_out])
    for row in left_out:
        refusal = refusals.get(row.pk)
        waits[row.pk] = Wait(WaitingRule.CAPACITY, refusal.detail) if refusal else FAILED
        wait(row, waits[row.pk], spared)
    for allocation_id, decision in queue.decide(snapshot, [p for _, p in queued.values()], waits):
        allocation, _ = queued[allocation_id]
        if isinstance(decision, Wait):
            waits[allocation_id] = decision
            wait(allocation, decision, spared)
        elif run_each_in_savepoint(
            "scheduler: start", [allocation], partial(start, decision=decision), key
        ):
            waits[allocation_id] = FAILED
            run_each_in_savepoint("scheduler: failed start", [allocation], wait_after_failure, key)
    withdraw_notices(spared)
    return waits


def run_tick_for_others() -> None:
    """Run a tick after a change that is complete without it. The next tick repeats a failed one."""
    run_each_in_savepoint("scheduler: tick", ["after a release"], lambda _: run_tick())


def refuse_on_full_disk() -> None:
    """Raise ApplianceError DISK_FULL while ticks grant nothing for lack of space."""
    if disk_space.refuses_grants():
        raise ApplianceError(
            Code.DISK_FULL,
            "The disk of the appliance is nearly full, so nothing is granted. Ask an administrator"
            " to free space.",
        )


def raise_failure(wait: Wait | None) -> None:
    """Raise ApplianceError INTERNAL if the caller's own request failed in the tick."""
    if wait is FAILED:
        raise ApplianceError(Code.INTERNAL, "The request failed; see the appliance's log.")


def start(allocation: Allocation, decision: Start) -> None:
    """Grant the placement or growth. If another scheduler was faster, it stays in the queue."""

    def handle_conflict() -> None:
        index.reset()
        log.info(
            "scheduler: another scheduler took the capacity; retrying in the next tick: "
            "allocation=%s",
            allocation.pk,
        )

    def grant() -> None:
        if allocation.state == AllocationState.QUEUED:
            lifecycle.prepare(allocation, decision.pool_id, decision.placement.shares)
        else:
            resizing.grant(allocation)

    run_in_savepoint(
        grant,
        (IntegrityError, OperationalError),
        handle_conflict,
    )


def wait(allocation: Allocation, decision: Wait, spared: dict[UUID, Allocation]) -> None:
    """Record the reason for waiting if it changed, and announce evictions.

    Allocations that have notice already keep its time. They are removed from `spared`.
    """
    if differs(allocation, decision):
        run_each_in_savepoint(
            "scheduler: reason for waiting",
            [allocation],
            partial(record_reason, decision=decision),
            key,
        )

    def preempt(victim: UUID) -> None:
        reason = preemption_reason(allocation)
        if noticed := spared.pop(victim, None):
            if noticed.end_reason != reason:
                lifecycle.change_eviction(noticed, reason=reason)
            return
        grace_seconds = current(AllocationSettings).preemption_grace_seconds
        evict(allocation_id=victim, reason=reason, grace_seconds=grace_seconds)

    run_each_in_savepoint("scheduler: preemption", decision.evictions, preempt)


def differs(allocation: Allocation, decision: Wait) -> bool:
    told = (allocation.waiting_rule, allocation.waiting_reason)
    return told != (decision.rule, decision.reason[:500])


def record_reason(allocation: Allocation, decision: Wait) -> None:
    Allocation.objects.filter(pk=allocation.pk, state=allocation.state).update(
        waiting_rule=decision.rule, waiting_reason=decision.reason[:500]
    )
    change_log.record(Topic.ALLOCATION, allocation.pk)
    if allocation.state == AllocationState.QUEUED:
        task_log(path=allocation.path, kind=lifecycle.PREPARE_TASK, message=decision.reason)
    else:
        message = f"{allocation.name or allocation.pk}: {decision.reason}"
        task_log(path=allocation.path, kind=lifecycle.RESIZE_TASK, message=message)


def wait_after_failure(allocation: Allocation) -> None:
    """Record the failure of a start, which may have changed the row in memory."""
    allocation.refresh_from_db()
    wait(allocation, FAILED, {})


def key(allocation: Allocation) -> UUID:
    return allocation.pk


@write_transaction
def verify_index() -> None:
    index.verify_sample()
