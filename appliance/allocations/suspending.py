"""Suspension of allocations: what is desired of the nodes, what they report, and its end. ADR 98.

A suspended allocation keeps its partitions: the memory that its sessions have released stays
reserved for it. All functions run inside a transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.events import SYSTEM
from appliance.activity.tasks import task_end, task_log, task_start
from appliance.allocations.grants import load_partitions
from appliance.allocations.lifecycle import (
    RESUME_TASK,
    SUSPEND_TASK,
    emit_event,
    publish_partitions,
)
from appliance.allocations.models import (
    IN_PROGRESS,
    RUNNING,
    Allocation,
    AllocationState,
    SuspensionState,
)
from appliance.api.errors import ApplianceError, Code
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.inventory.generations import increment_generations
from appliance.runtime.failpoints import failpoint

if TYPE_CHECKING:
    from nodes.protocol import fleet_pb2

REPORT_ROWS, CHANGE_ROWS = 2, 8
"""Rows that a new report writes, and that the change of an allocation writes."""
WAITS_FOR_RESUMPTION = "The resize waits until the allocation is resumed."
Report = Sequence[Any]
"""State, released bytes and reason of a node, as `suspension_reports` has them."""


def change(allocation: Allocation, **changes: object) -> bool:
    """Change columns if no other writer has changed the row; announce and publish it."""
    after = changes | {"version": allocation.version + 1}
    rows = Allocation.objects.filter(
        pk=allocation.pk, state__in=RUNNING, version=allocation.version
    )
    if not rows.update(**after):
        return False
    for name, value in after.items():
        setattr(allocation, name, value)
    change_log.record(Topic.ALLOCATION_HOLDINGS, allocation.pk)
    partitions = load_partitions([allocation.pk]).get(allocation.pk, [])
    increment_generations(p.node_id for p in partitions)
    publish_partitions(partitions)
    return True


def desire(allocation: Allocation, suspension: SuspensionState, reason: str = "") -> bool:
    """Let the nodes suspend or resume the sessions, and forget what they have reported."""
    return change(
        allocation,
        suspension=str(suspension),
        suspension_revision=allocation.suspension_revision + 1,
        suspension_reason=reason[:200],
        suspension_requested_at=timezone.now(),
        suspension_reports={},
    )


def begin(allocation: Allocation, user: User) -> None:
    """Suspend the sessions of an active allocation.

    Raises ApplianceError CONFLICT if another writer changed the allocation first.
    """
    if not desire(allocation, SuspensionState.SUSPENDING):
        raise changed_concurrently()
    if allocation.resize_requested_at is not None:  # the reason that it has may end meanwhile
        allocation.waiting_rule, allocation.waiting_reason = "", WAITS_FOR_RESUMPTION
        allocation.save(update_fields=["waiting_rule", "waiting_reason"])
    message = f"{user.username} asked for its suspension."
    emit_event(allocation, "allocation.suspend_requested", message=message, actor=user.username)
    start_task(allocation, SUSPEND_TASK, message, user)


def resume(allocation: Allocation, user: User) -> None:
    """Resume the sessions, also of a suspension that is in progress.

    Raises ApplianceError CONFLICT if another writer changed the allocation first.
    """
    if not desire(allocation, SuspensionState.RESUMING):
        raise changed_concurrently()
    message = f"{user.username} asked for its resumption."
    emit_event(allocation, "allocation.resume_requested", message=message, actor=user.username)
    task_end(path=allocation.path, kind=SUSPEND_TASK, error=f"resumed by {user.username}")
    start_task(allocation, RESUME_TASK, message, user)


def start_task(allocation: Allocation, kind: str, message: str, user: User) -> None:
    task_start(
        kind=kind,
        path=allocation.path,
        initiator=user,
        project_id=allocation.project_id,
        message=f"{allocation.name or allocation.pk}: {message}",
    )


def changed_concurrently() -> ApplianceError:
    return ApplianceError(
        Code.CONFLICT, "The allocation changed concurrently; read it and try again."
    )


def record_reports(node_id: UUID, reported: Mapping[UUID, fleet_pb2.Suspension]) -> int:
    """Record what a node reports about its allocations; reports about others are ignored.

    Returns the number of written rows.
    """
    written = 0
    rows = Allocation.objects.filter(
        pk__in=list(reported), partitions__gpu__node_id=node_id, suspension__in=IN_PROGRESS
    )
    for allocation in rows.filter(state__in=RUNNING).distinct():
        report = reported[allocation.pk]
        if report.revision == allocation.suspension_revision:
            written += record_report(allocation, node_id, report)
    return written


def record_report(allocation: Allocation, node_id: UUID, report: fleet_pb2.Suspension) -> int:
    """Record a report and return the number of written rows; none if it says nothing new."""
    known = allocation.suspension_reports
    entry = [report.state, report.released_bytes, report.reason]
    if known.get(str(node_id)) == entry:
        return 0
    version = allocation.version
    allocation.suspension_reports = known | {str(node_id): entry}
    Allocation.objects.filter(pk=allocation.pk).update(
        suspension_reports=allocation.suspension_reports
    )
    change_log.record(Topic.ALLOCATION, allocation.pk)
    partitions = load_partitions([allocation.pk]).get(allocation.pk, [])
    nodes = {str(p.node_id) for p in partitions}
    reports = [allocation.suspension_reports.get(node) for node in nodes]
    advance(allocation, [r for r in reports if r is not None], complete=None not in reports)
    return REPORT_ROWS + (CHANGE_ROWS if allocation.version != version else 0)


def advance(allocation: Allocation, reports: Sequence[Report], *, complete: bool) -> None:
    """Go to the next state if the reports of the nodes, all of them if `complete`, say so."""
    states, reason = {r[0] for r in reports}, next((r[2] for r in reports if r[2]), "")
    if allocation.suspension == SuspensionState.SUSPENDING:
        if "failed" in states or "running" in states:
            abandon(allocation, reason or "a program has work")
        elif complete and states <= {"suspended", "waiting"}:
            finish_suspension(allocation)
        else:
            task_log(path=allocation.path, kind=SUSPEND_TASK, message=progress(reports))
    elif allocation.suspension == SuspensionState.RESUMING:
        if complete and states == {"running"}:
            finish_resumption(allocation)
        elif reason:
            task_log(path=allocation.path, kind=RESUME_TASK, message=reason)
    elif "running" in states:
        finish_resumption(allocation, by_call=True)
    else:
        waiting = "waiting" in states
        new = SuspensionState.WAITING if waiting else SuspensionState.SUSPENDED
        if new != allocation.suspension:
            change(allocation, suspension=str(new))


def progress(reports: Sequence[Report]) -> str:
    done = sum(r[0] in ("suspended", "waiting") for r in reports)
    return f"{done} of its nodes have suspended its sessions."


def finish_suspension(allocation: Allocation) -> None:
    suspended = {"state": str(AllocationState.SUSPENDED)}
    if not change(allocation, suspension=str(SuspensionState.SUSPENDED), **suspended):
        return
    failpoint("suspension.recorded")
    released = sum(r[1] for r in allocation.suspension_reports.values())
    message = f"Suspended: {released >> 20} MiB of device memory are in host memory."
    emit_event(allocation, "allocation.suspended", message=message)
    task_end(path=allocation.path, kind=SUSPEND_TASK)


def abandon(allocation: Allocation, reason: str) -> None:
    """Resume what is suspended already, because a session could not be."""
    if desire(allocation, SuspensionState.RESUMING, reason):
        message = f"Not suspended: {reason}"
        emit_event(allocation, "allocation.suspend_failed", message=message)
        task_end(path=allocation.path, kind=SUSPEND_TASK, error=reason)


def finish_resumption(allocation: Allocation, *, by_call: bool = False) -> None:
    """Make the allocation active. `by_call`: a program went on by itself."""
    was_suspended = allocation.state == AllocationState.SUSPENDED
    failed = allocation.suspension_reason
    if not change(
        allocation,
        state=str(AllocationState.ACTIVE),
        suspension=str(SuspensionState.FAILED) if failed else "",
        suspension_reports={},
    ):
        return
    failpoint("resumption.recorded")
    if was_suspended:
        how = "A program has work." if by_call else "All nodes have resumed its sessions."
        emit_event(allocation, "allocation.resumed", message=f"Resumed: {how}", actor=SYSTEM)
    task_end(path=allocation.path, kind=RESUME_TASK)
