"""Allocations: ask, start, activate, take back."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Count, Sum
from django.utils import timezone

from appliance.accounts.models import Project, User
from appliance.accounts.permissions import can
from appliance.activity.feed import hub
from appliance.activity.models import Task
from appliance.activity.services import SYSTEM, emit, task_say, task_start
from appliance.activity.tasks import register_canceller
from appliance.allocations import book, holding, idleness, lifecycle, queue
from appliance.allocations.claims import Start, Wait
from appliance.allocations.index import index
from appliance.allocations.models import (
    OCCUPYING,
    Allocation,
    AllocationState,
    Partition,
    Session,
    SessionState,
)
from appliance.allocations.placement import ComputeMode
from appliance.errors import ApplianceError, Code
from appliance.pools import fair_share
from appliance.pools.models import Pool, Reservation
from appliance.prepared import Select, insert
from appliance.telemetry import series
from appliance.writer import may_fail, writes

log = logging.getLogger(__name__)

PROJECT_METRICS = (
    "allocated_percent",
    "allocated_memory_bytes",
    "partitions",
    "sessions",
    "waiting_allocations",
)
RESERVED_PRIORITY = 100
"""From here on a request needs allocations.manage: it passes everybody else's."""


PROJECT_NAMED = Select(lambda name: Project.objects.filter(name=name))
POOL_NAMED = Select(lambda name: Pool.objects.filter(name=name))
BY_ID = Select(lambda ids: Allocation.objects.filter(pk__in=ids))
CHANGING = (AllocationState.PREPARING, AllocationState.RELEASING)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody asks for; the fields are those of the allocation."""

    pool_name: str
    gpu_count: int = 1
    percent: int = 0
    memory_bytes: int = 0
    compute_mode: str = ComputeMode.SHARED
    same_node: bool = False
    model: str = ""
    selector: dict[str, str] = field(default_factory=dict)
    min_driver_version: str = ""
    min_cuda_version: str = ""
    priority: int = 50
    preemptible: bool = True
    lifetime_seconds: int | None = None
    reservation_id: UUID | None = None
    name: str = ""


@writes
def allocation_create(*, owner: User, project_name: str, wanted: Wanted) -> Allocation:
    """Waits until it is placed; `waiting_reason` says why it does."""
    project, pool = PROJECT_NAMED.first(name=project_name), POOL_NAMED.first(name=wanted.pool_name)
    if project is None or not can(owner, "allocations.create", project.pk):
        raise ApplianceError(
            Code.DENIED,
            f"You may not allocate in project {project_name}; ask an operator for the role `user` there.",
        )
    if pool is None or (pool.audience is not None and project.pk not in pool.audience):
        raise ApplianceError(
            Code.NOT_FOUND, f"There is no pool {wanted.pool_name}; `busbar pool list` shows them."
        )
    if wanted.priority >= RESERVED_PRIORITY and not can(owner, "allocations.manage", project.pk):
        raise ApplianceError(
            Code.DENIED,
            f"Priorities from {RESERVED_PRIORITY} on are an operator's to give; ask for less than that.",
        )
    if wanted.compute_mode == ComputeMode.CAPPED:
        raise ApplianceError(
            Code.NOT_SUPPORTED,
            "compute_mode capped is not there yet; ask for shared, or for exclusive.",
        )
    allocation = Allocation(
        owner=owner, project=project, pool=pool, name=wanted.name, gpu_count=wanted.gpu_count, percent=wanted.percent, memory_bytes=wanted.memory_bytes,
        compute_mode=wanted.compute_mode, same_node=wanted.same_node, model=wanted.model, selector=wanted.selector,
        min_driver_version=wanted.min_driver_version, min_cuda_version=wanted.min_cuda_version, priority=wanted.priority, preemptible=wanted.preemptible,
        lifetime_seconds=lifetime(wanted.lifetime_seconds, pool.max_lifetime_seconds), reservation=reservation_of(wanted.reservation_id, project, pool),
    )  # fmt: skip
    if allocation.compute_mode == ComputeMode.EXCLUSIVE or not (
        allocation.percent or allocation.memory_bytes
    ):
        allocation.percent, allocation.memory_bytes = 100, 0
    insert(allocation)
    size = f"{book.request_of(allocation)} of pool {pool.name}"
    message = f"{owner.username} asked for {size}."
    emit(
        "allocation.waiting",
        path=allocation.path,
        object_id=allocation.pk,
        project_id=project.pk,
        actor=owner.username,
        message=message,
    )
    task_start(
        kind=lifecycle.PREPARE_TASK,
        path=allocation.path,
        initiator=owner,
        project_id=project.pk,
        message=f"{wanted.name or allocation.pk}: {size}",
    )
    transaction.on_commit(partial(holding.held, allocation.pk))
    queue_advance()
    return allocation


def lifetime(wanted: int | None, most: int | None) -> int | None:
    return min((s for s in (wanted, most) if s), default=None)


def reservation_of(reservation_id: UUID | None, project: Project, pool: Pool) -> Reservation | None:
    if reservation_id is None:
        return None
    reservation = Reservation.objects.filter(pk=reservation_id, project=project, pool=pool).first()
    if reservation is None:
        raise ApplianceError(
            Code.NOT_FOUND,
            "There is no such reservation for this project in this pool; `busbar reservation list` shows them.",
        )
    return reservation


@writes
def queue_advance() -> None:
    """Starts what may start, asks those to leave who must make room, and tells the others why they wait."""
    rows = book.waiting_rows()
    if not rows:
        return
    opened, waiting = book.opened(index.refreshed(), rows)
    for allocation_id, outcome in queue.decide(opened, [waiter for _, waiter in waiting.values()]):
        row, _ = waiting[allocation_id]
        if isinstance(outcome, Start):
            start(row, outcome)
        else:
            wait(row, outcome)


def start(allocation: Allocation, outcome: Start) -> None:
    def another_was_first() -> None:
        index.forget()
        log.info(
            "allocation %s: another scheduler was first; the next round sees what is left",
            allocation.pk,
        )

    may_fail(
        lambda: lifecycle.prepare(allocation, outcome.pool_id, outcome.placed.shares),
        (IntegrityError, OperationalError),
        another_was_first,
    )


def wait(allocation: Allocation, outcome: Wait) -> None:
    if (allocation.waiting_rule, allocation.waiting_reason) != (outcome.rule, outcome.reason[:500]):
        Allocation.objects.filter(pk=allocation.pk, state=AllocationState.WAITING).update(
            waiting_rule=outcome.rule, waiting_reason=outcome.reason[:500]
        )
        hub.changed("allocation", allocation.pk)
        task_say(path=allocation.path, kind=lifecycle.PREPARE_TASK, message=outcome.reason)
    for victim in outcome.evictions:
        reason = f"its room is needed by allocation {allocation.name or allocation.pk} of project {allocation.project.name}, which has the better claim"
        evict(
            allocation_id=victim,
            reason=reason,
            grace_seconds=settings.ENVIRONMENT.preemption_grace_seconds,
        )


@writes
def generation_applied(*, node_id: UUID, generation: int, alive: Collection[UUID] = ()) -> None:
    """A node has made this generation so: what waited for it becomes active or, once its last session there has ended, is released."""
    freed, here = 0, lifecycle.partitions_on(node_id, CHANGING)
    for allocation in BY_ID.objects(ids=sorted(here)) if here else ():
        mine = (
            here[allocation.pk]
            if allocation.gpu_count == 1
            else lifecycle.partitions_of([allocation.pk])[allocation.pk]
        )
        if allocation.state == AllocationState.PREPARING:
            if all(
                p.generation <= (generation if p.node_id == node_id else p.applied_generation)
                for p in mine
            ):
                lifecycle.activate(allocation, mine)
        elif allocation.pk not in alive:
            gone = [p for p in mine if p.node_id == node_id and p.generation <= generation]
            freed += lifecycle.free(gone)
            if len(gone) == len(mine):
                lifecycle.finish_release(allocation)
    if freed:
        queue_advance()


@writes
def evict(
    *, allocation_id: UUID, reason: str, actor: str = SYSTEM, grace_seconds: float = 0.0
) -> Allocation:
    """The one way of taking back. With a grace, an active one gets notice first."""
    (allocation,) = BY_ID.objects(ids=[allocation_id])
    if allocation.state == AllocationState.WAITING:
        lifecycle.leave_queue(allocation, reason=reason, actor=actor)
    elif grace_seconds > 0 and allocation.state == AllocationState.ACTIVE:
        lifecycle.announce_end(allocation, reason=reason, actor=actor, seconds=grace_seconds)
        allocation.refresh_from_db()
    else:
        lifecycle.begin_release(allocation, reason=reason, actor=actor)
    return allocation


@writes
def force_release(*, allocation_id: UUID, actor: str) -> Allocation:
    """Frees the partitions of a node that does not report. Its sessions may still run there: an administrator's decision, kept in the events."""
    allocation = evict(
        allocation_id=allocation_id, reason=f"force-released by {actor}", actor=actor
    )
    freed = lifecycle.free(lifecycle.partitions_of([allocation_id]).get(allocation_id, ()))
    emit(
        "allocation.force_released", path=allocation.path, object_id=allocation.pk, project_id=allocation.project_id, actor=actor,
        message=f"{actor} freed {freed} partitions without their nodes' word.",
    )  # fmt: skip
    lifecycle.finish_release(allocation)
    queue_advance()
    return allocation


@writes
def end_what_is_due() -> None:
    """What had notice, what has lived as long as it may, and what neither a live session nor a heartbeat has held for too long."""
    now, patience = timezone.now(), settings.ENVIRONMENT.hold_seconds
    states = [AllocationState.WAITING, AllocationState.PREPARING, AllocationState.ACTIVE]
    in_use = set(
        Session.objects.exclude(state=SessionState.CLOSED).values_list("allocation_id", flat=True)
    )
    columns = (
        "pk",
        "evict_at",
        "end_reason",
        "lifetime_seconds",
        "active_at",
        "placed_pool__max_idle_seconds",
    )
    for (
        allocation_id,
        evict_at,
        end_reason,
        seconds,
        active_at,
        most_idle,
    ) in Allocation.objects.filter(state__in=states).values_list(*columns):
        if evict_at is not None and evict_at <= now:
            evict(allocation_id=allocation_id, reason=end_reason)
        elif seconds and active_at and active_at + timedelta(seconds=seconds) <= now:
            evict(allocation_id=allocation_id, reason=f"its lifetime of {seconds} s is over")
        elif (
            most_idle
            and active_at
            and evict_at is None
            and idleness.idle_seconds(allocation_id) > most_idle
        ):
            reason = f"it launched and copied nothing for {most_idle} s, which is its pool's limit"
            evict(
                allocation_id=allocation_id,
                reason=reason,
                grace_seconds=settings.ENVIRONMENT.preemption_grace_seconds,
            )
        elif allocation_id in in_use:
            holding.held(allocation_id)
        elif holding.seconds_since_held(allocation_id) > patience:
            evict(allocation_id=allocation_id, reason=f"nobody held it for {patience:.0f} s")


def prepare_cancelled(task: Task, user: User) -> None:
    evict(
        allocation_id=UUID(task.path.rpartition("/")[2]),
        reason=f"{user.username} cancelled it",
        actor=user.username,
    )


register_canceller(
    lifecycle.PREPARE_TASK, "allocations.manage", prepare_cancelled, own="allocations.use"
)


@writes
def check_index() -> None:
    index.check_some()


def count_use() -> None:
    """What each project has in use now, for the fair share and its history. Every ten seconds."""
    held = Partition.objects.filter(allocation__state__in=OCCUPYING).values_list(
        "allocation__project_id"
    )
    rows = {
        project_id: sums
        for project_id, *sums in held.annotate(
            Sum("compute_percent"), Sum("memory_bytes"), Count("pk")
        )
    }
    fair_share.count_use(
        use={project_id: sums[0] for project_id, sums in rows.items()}, now=timezone.now()
    )
    waiting = Counter(
        Allocation.objects.filter(state=AllocationState.WAITING).values_list(
            "project_id", flat=True
        )
    )
    in_use = Counter(
        Session.objects.exclude(state=SessionState.CLOSED).values_list(
            "allocation__project_id", flat=True
        )
    )
    readings = {
        project_id: [
            float(value)
            for value in (*rows.get(project_id, (0, 0, 0)), in_use[project_id], waiting[project_id])
        ]
        for project_id in Project.objects.values_list("pk", flat=True)
    }
    series.record(PROJECT_METRICS, readings, time.time())
