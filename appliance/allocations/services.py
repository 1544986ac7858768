"""Create allocations, apply reports of nodes, and force releases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TypedDict, Unpack
from uuid import UUID

from django.db import transaction

from appliance.accounts.models import Project, User
from appliance.accounts.permissions import can
from appliance.activity.tasks import task_start
from appliance.allocations import leases, lifecycle, resizing
from appliance.allocations.eviction import evict
from appliance.allocations.feasibility import reason_against
from appliance.allocations.grants import (
    GrantedPartition,
    load_changing_partitions,
    load_partitions,
)
from appliance.allocations.index import index
from appliance.allocations.models import Allocation, AllocationState, Hold
from appliance.allocations.placement import ComputeMode
from appliance.allocations.queries import ALLOCATIONS_BY_ID
from appliance.allocations.request_projects import find_project
from appliance.allocations.scheduler import (
    raise_failure,
    refuse_on_full_disk,
    run_tick,
    run_tick_for_others,
)
from appliance.allocations.snapshot import Wait, WaitingRule
from appliance.allocations.snapshot_loader import load_snapshot, placement_request
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record, record_created
from appliance.db.prepared import Select, insert
from appliance.db.writer import write_transaction
from appliance.pools.models import Pool, Reservation

RESERVED_PRIORITY = 100
"""Requests with this priority or a higher one need allocations.manage on the whole appliance."""

MAX_QUEUED = 256
"""Requests of a user in the queue. The scheduler tries all of them in each tick, and those with the
hold `lifetime` wait without a client."""

POOL_BY_NAME = Select(lambda name: Pool.objects.filter(name=name))
CHANGING = (AllocationState.PREPARING, AllocationState.RELEASING)


class RequestedColumns(TypedDict, total=False):
    """Columns of a new allocation."""

    name: str
    gpu_count: int
    percent: int
    memory_bytes: int
    compute_mode: str
    same_node: bool
    model: str
    selector: dict[str, str]
    min_driver_version: str
    min_cuda_version: str
    priority: int
    preemptible: bool
    lifetime_seconds: int | None
    hold: str
    reservation_id: UUID | None


@write_transaction
def create_allocation(
    *,
    owner: User,
    project_name: str | None,
    pool_name: str,
    allow_pending: bool = False,
    **columns: Unpack[RequestedColumns],
) -> Allocation:
    """Queue an allocation with the requested columns and run the scheduler.

    With `allow_pending` also if it can never start with the registered GPUs and limits.

    Raises:
        ApplianceError: DENIED without the privilege for project or priority, NOT_FOUND for an
            unknown pool or reservation, INVALID for a hold by a lifetime that is unlimited and
            for no name of a project if there are several (`find_project`),
            CONFLICT for one request too many in the queue, UNSATISFIABLE if it can never start,
            DISK_FULL if the appliance has too little space, INTERNAL if it cannot be read or
            started.
    """
    refuse_on_full_disk()
    project = find_project(owner, project_name)
    pool = find_pool(pool_name, project)
    allocation = Allocation(owner=owner, project=project, pool=pool, **columns)
    complete_request(allocation, owner, project, pool)
    insert(allocation)
    record_created(allocation)
    announce_request(allocation, owner, pool)
    transaction.on_commit(partial(leases.renew_lease, allocation.pk))
    wait = run_tick().get(allocation.pk)
    raise_failure(wait)
    if wait:
        check_queue_length(owner)
        if not allow_pending:
            check_can_start(allocation, wait)
    return allocation


def complete_request(a: Allocation, owner: User, project: Project, pool: Pool) -> None:
    """Check a request and set the columns that follow from it.

    Raises ApplianceError DENIED for a reserved priority, INVALID for a hold without an end,
    NOT_FOUND for an unknown reservation.
    """
    check_priority(a.priority, owner)
    a.lifetime_seconds = shorter(a.lifetime_seconds, pool.max_lifetime_seconds)
    check_hold(a.hold, a.lifetime_seconds)
    check_reservation(a.reservation_id, project, pool)
    if a.compute_mode == ComputeMode.EXCLUSIVE or not (a.percent or a.memory_bytes):
        a.percent, a.memory_bytes = 100, 0
    a.granted_compute_mode = a.compute_mode


def announce_request(allocation: Allocation, owner: User, pool: Pool) -> None:
    """Record the event and start the task of a new request."""
    size = f"{placement_request(allocation)} of pool {pool.name}"
    lifecycle.emit_event(
        allocation,
        "allocation.queued",
        message=f"{owner.username} requested {size}.",
        actor=owner.username,
    )
    task_start(
        kind=lifecycle.PREPARE_TASK,
        path=allocation.path,
        initiator=owner,
        project_id=allocation.project_id,
        message=f"{allocation.name or allocation.pk}: {size}",
    )


def check_queue_length(owner: User) -> None:
    """Raise ApplianceError CONFLICT if the user has too many requests in the queue."""
    queued = Allocation.objects.filter(owner=owner, state=AllocationState.QUEUED).count()
    if queued > MAX_QUEUED:
        raise ApplianceError(
            Code.CONFLICT,
            f"{owner.username} has {MAX_QUEUED} requests in the queue, the most there may be. "
            "Request again when some of them have started.",
        )


def check_can_start(allocation: Allocation, wait: Wait) -> None:
    """Raise ApplianceError UNSATISFIABLE if a request that waits can never start."""
    if wait.rule not in (WaitingRule.CAPACITY, WaitingRule.LIMIT, WaitingRule.QUOTA):
        return
    snapshot, queued = load_snapshot(index.refresh(), [allocation])
    if reason := reason_against(snapshot, queued[allocation.pk][1]):
        raise ApplianceError(
            Code.UNSATISFIABLE,
            f"The request can never start. {reason} Change the request, or set allow_pending to "
            "wait until GPUs are added or limits are raised.",
        )


def find_pool(name: str, project: Project) -> Pool:
    pool = POOL_BY_NAME.first(name=name)
    if pool is None or (pool.audience is not None and project.pk not in pool.audience):
        raise ApplianceError(
            Code.NOT_FOUND, f"Pool {name} not found. List pools with: busbar pool list"
        )
    return pool


def check_reservation(reservation_id: UUID | None, project: Project, pool: Pool) -> None:
    if reservation_id is None:
        return
    if not Reservation.objects.filter(pk=reservation_id, project=project, pool=pool).exists():
        raise ApplianceError(
            Code.NOT_FOUND,
            f"Reservation {reservation_id} not found for project {project.name} in pool "
            f"{pool.name}. List reservations with: busbar reservation list",
        )


def check_priority(priority: int, owner: User) -> None:
    # A priority also acts on the requests and allocations of other projects.
    if priority >= RESERVED_PRIORITY and not can(owner, "allocations.manage", None):
        raise ApplianceError(
            Code.DENIED,
            f"Priority {priority} is reserved for operators of the appliance. "
            f"Request a priority below {RESERVED_PRIORITY}.",
        )


def check_hold(hold: str, lifetime_seconds: int | None) -> None:
    if hold == Hold.LIFETIME and lifetime_seconds is None:
        raise ApplianceError(
            Code.INVALID,
            "hold lifetime needs an end: set lifetime_seconds, because the pool has no maximum.",
        )


def shorter(first: int | None, second: int | None) -> int | None:
    """Return the shorter of two durations; None and 0 mean unlimited."""
    return min((s for s in (first, second) if s), default=None)


@write_transaction
def record_applied_generation(
    *,
    node_id: UUID,
    generation: int,
    alive: Collection[UUID] = (),
    over: Mapping[UUID, Sequence[int]] | None = None,
) -> None:
    """Advance allocations after a node has applied a generation.

    A preparing allocation becomes active when all of its nodes have applied its grant. A releasing
    one frees its partitions on this node, unless it still has sessions there (`alive`). One that
    has shrunk frees what it no longer holds: `over` has the bytes of those that hold more than
    their size. An agent that does not tell them (None) frees them with the last session.
    """
    freed, here = 0, load_changing_partitions(node_id, CHANGING)
    for allocation in ALLOCATIONS_BY_ID.objects(ids=sorted(here)) if here else ():
        partitions = (
            here[allocation.pk]
            if allocation.gpu_count == 1
            else load_partitions([allocation.pk])[allocation.pk]
        )
        if allocation.state == AllocationState.PREPARING:
            if all(is_applied(p, node_id, generation) for p in partitions):
                lifecycle.activate(allocation, partitions)
        elif allocation.state != AllocationState.RELEASING:
            own = here[allocation.pk]
            held = held_bytes(own, over, has_sessions=allocation.pk in alive)
            freed += resizing.confirm(allocation, own, generation, held)
        elif allocation.pk not in alive:
            ended = [p for p in partitions if p.node_id == node_id and p.generation <= generation]
            freed += lifecycle.free_partitions(ended)
            if len(ended) == len(partitions):
                lifecycle.finish_release(allocation)
    if freed:
        run_tick_for_others()


def held_bytes(
    partitions: Sequence[GrantedPartition],
    over: Mapping[UUID, Sequence[int]] | None,
    *,
    has_sessions: bool,
) -> Sequence[int] | None:
    """Return the bytes that an allocation's partitions on a node hold at most; None: unknown."""
    if over is None and has_sessions:
        return None
    return (over or {}).get(partitions[0].allocation_id, [0] * len(partitions))


def is_applied(partition: GrantedPartition, node_id: UUID, generation: int) -> bool:
    """Return whether the partition's node has applied it; `generation` is that of `node_id`."""
    applied = generation if partition.node_id == node_id else partition.applied_generation
    return partition.generation <= applied


@write_transaction
def force_release(*, allocation_id: UUID, actor: str) -> Allocation:
    """Free the partitions without confirmation by their nodes.

    Sessions may still run there, so the GPUs can be used twice for a while.
    """
    allocation = evict(
        allocation_id=allocation_id, reason=f"force-released by {actor}", actor=actor
    )
    partitions = load_partitions([allocation_id]).get(allocation_id, ())
    freed = lifecycle.free_partitions(partitions)
    lifecycle.emit_event(
        allocation,
        "allocation.force_released",
        message=f"{actor} released {freed} partition{'' if freed == 1 else 's'} "
        "without confirmation by the nodes.",
        actor=actor,
    )
    lifecycle.finish_release(allocation)
    record(allocation, "force_released", {}, {"freed_partitions": freed})
    run_tick_for_others()
    return allocation
