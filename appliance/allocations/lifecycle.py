"""State transitions of allocations and the changes of rows that belong to them.

Each transition is one guarded update and one event. All functions run inside a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from appliance.activity.events import SYSTEM, emit
from appliance.activity.tasks import task_end
from appliance.allocations import idleness, leases
from appliance.allocations.grants import GrantedPartition, load_partitions
from appliance.allocations.models import RUNNING, Allocation, AllocationState, Partition
from appliance.allocations.placement import Share
from appliance.db import change_log
from appliance.db.change_log import Removal, Topic
from appliance.db.prepared import Delete, Update, insert
from appliance.inventory.generations import increment_generations
from appliance.inventory.models import Gpu
from appliance.runtime.failpoints import failpoint

PREPARE_TASK, EVICT_TASK = "allocation.prepare", "allocation.evict"
RESIZE_TASK = "allocation.resize"
SUSPEND_TASK, RESUME_TASK = "allocation.suspend", "allocation.resume"
PREEMPTED = "preempted by allocation "
"""Begin of the reason of a notice that another allocation causes; its id follows."""

UPDATE_STATE = Update(
    lambda allocation_id, old, known, **changes: (
        Allocation.objects.filter(pk=allocation_id, state__in=old, version=known),
        changes,
    ),
)


def plus(percent: int, memory_bytes: int) -> dict[str, object]:
    return {
        "taken_percent": F("taken_percent") + percent,
        "taken_memory_bytes": F("taken_memory_bytes") + memory_bytes,
    }


TAKE_CAPACITY = Update(
    lambda gpu_id, percent, memory_bytes: (
        Gpu.objects.filter(pk=gpu_id, present=True, duplicate_of__isnull=True),
        plus(percent, memory_bytes),
    )
)
FREE_CAPACITY = Update(
    lambda gpu_id, percent, memory_bytes: (
        Gpu.objects.filter(pk=gpu_id),
        plus(percent, memory_bytes),
    )
)
DELETE_PARTITION = Delete(lambda partition_id: Partition.objects.filter(pk=partition_id))
SET_GENERATION = Update(
    lambda partition_id, generation: (
        Partition.objects.filter(pk=partition_id),
        {"generation": generation},
    )
)


def transition(
    allocation: Allocation,
    old: Iterable[str],
    new: AllocationState,
    *,
    message: str,
    actor: str = SYSTEM,
    **changes: object,
) -> bool:
    """Change the state and other columns if state and version are as expected.

    Returns False, without any effect, if another writer changed the row first.
    """
    after = {"state": str(new), "version": allocation.version + 1, **changes}
    changed = UPDATE_STATE(
        allocation_id=allocation.pk,
        old=[str(state) for state in old],
        known=allocation.version,
        **after,
    )
    if not changed:
        return False
    change_log.record(Topic.ALLOCATION_HOLDINGS, allocation.pk)
    if new == AllocationState.ACTIVE:
        idleness.start_idle_timer(allocation.pk)
    emit_event(allocation, f"allocation.{new}", message=message, actor=actor)
    for name, value in after.items():
        setattr(allocation, name, value)
    return True


def emit_event(allocation: Allocation, kind: str, *, message: str, actor: str = SYSTEM) -> None:
    emit(
        kind,
        path=allocation.path,
        object_id=allocation.pk,
        project_id=allocation.project_id,
        actor=actor,
        message=message,
    )


def prepare(allocation: Allocation, pool_id: UUID, shares: Sequence[Share]) -> None:
    """Grant the shares to a queued allocation.

    Raises IntegrityError if another scheduler has taken the capacity since it was read.
    """
    if not transition(
        allocation,
        [AllocationState.QUEUED],
        AllocationState.PREPARING,
        message="Placed; waiting for the nodes to apply the grant.",
        waiting_reason="",
        waiting_rule="",
        placed_pool_id=pool_id,
    ):
        return
    for s in sorted(shares, key=lambda s: s.gpu_id):  # same order everywhere: no deadlock
        take_capacity(s.gpu_id, s.compute_percent, s.memory_bytes)
    failpoint("grant.taken")
    change_log.record(Topic.ALLOCATION_HOLDINGS, allocation.pk)
    generations = increment_generations(s.node_id for s in shares)
    for position, s in enumerate(shares):
        partition = Partition(
            allocation=allocation,
            gpu_id=s.gpu_id,
            position=position,
            memory_bytes=s.memory_bytes,
            compute_percent=s.compute_percent,
            generation=generations[s.node_id],
        )
        change_log.record(Topic.PARTITION, insert(partition).pk)
    change_log.record(Topic.ALLOCATION, allocation.pk)


def activate(allocation: Allocation, partitions: Iterable[GrantedPartition]) -> None:
    if transition(
        allocation,
        [AllocationState.PREPARING],
        AllocationState.ACTIVE,
        message="Ready for sessions.",
        active_at=timezone.now(),
    ):
        publish_partitions(partitions)
        task_end(path=allocation.path, kind=PREPARE_TASK)


def publish_partitions(partitions: Iterable[GrantedPartition]) -> None:
    """Announce partitions whose allocation changed its state, which is part of their row."""
    for p in partitions:
        change_log.record(Topic.PARTITION, p.pk)


def take_capacity(gpu_id: UUID, percent: int, memory_bytes: int) -> None:
    """Add to the taken capacity of a GPU; negative amounts free it.

    Raises IntegrityError, as if the capacity was taken, if the GPU has gone missing or has become
    a duplicate since it was read: another node may grant it.
    """
    change_log.record(Topic.GPU_CAPACITY, gpu_id)
    takes = percent > 0 or memory_bytes > 0
    change = TAKE_CAPACITY if takes else FREE_CAPACITY
    if not change(gpu_id=gpu_id, percent=percent, memory_bytes=memory_bytes) and takes:
        raise IntegrityError(f"GPU {gpu_id} is missing or held as a duplicate")


def free_partitions(partitions: Sequence[GrantedPartition]) -> int:
    """Delete partitions, free their capacity and announce it. Returns their number."""
    for p in partitions:
        if DELETE_PARTITION(partition_id=p.pk):
            take_capacity(p.gpu_id, -p.compute_percent, -p.occupied_bytes)
            failpoint("partition.freed")
            change_log.record(Topic.ALLOCATION_HOLDINGS, p.allocation_id)
        change_log.record(Topic.SERIES_END, p.pk)
        change_log.record(Topic.PARTITION, p.pk, Removal("inventory.view"))
    return len(partitions)


def leave_queue(allocation: Allocation, *, reason: str, actor: str) -> None:
    if transition(
        allocation,
        [AllocationState.QUEUED],
        AllocationState.RELEASED,
        message=f"Removed from the queue: {reason}",
        actor=actor,
        end_reason=reason[:500],
        ended_at=timezone.now(),
        waiting_reason="",
        waiting_rule="",
    ):
        task_end(path=allocation.path, kind=PREPARE_TASK, error=reason)
        transaction.on_commit(partial(leases.forget_lease, allocation.pk))


def announce_eviction(allocation: Allocation, *, reason: str, actor: str, seconds: float) -> None:
    """Set the time of eviction. The allocation stays active or suspended until then.

    An announced one stays, unless it is for another allocation: that may withdraw it.
    """
    evict_at = timezone.now() + timedelta(seconds=seconds)
    replaced = Q(evict_at=None) | Q(end_reason__startswith=PREEMPTED)
    rows = Allocation.objects.filter(replaced, pk=allocation.pk, state__in=RUNNING)
    change_log.record(Topic.ALLOCATION_HOLDINGS, allocation.pk)
    if rows.update(evict_at=evict_at, end_reason=reason[:500], version=F("version") + 1):
        message = f"Eviction in {seconds:.0f} s: {reason}"
        emit_event(allocation, "allocation.evicting", message=message, actor=actor)


def withdraw_eviction(allocation: Allocation, *, actor: str) -> None:
    """Clear the time of eviction because its reason no longer applies.

    One for a reason that another writer has given since the row was read stays.
    """
    rows = noticed_row(allocation)
    change_log.record(Topic.ALLOCATION_HOLDINGS, allocation.pk)
    if rows.update(evict_at=None, end_reason="", version=F("version") + 1):
        message = "The announced eviction was withdrawn."
        emit_event(allocation, "allocation.eviction_withdrawn", message=message, actor=actor)


def change_eviction(allocation: Allocation, *, reason: str) -> None:
    """Change the reason of an announced eviction. Its time stays."""
    if noticed_row(allocation).update(end_reason=reason[:500], version=F("version") + 1):
        change_log.record(Topic.ALLOCATION, allocation.pk)


def noticed_row(allocation: Allocation) -> QuerySet[Allocation]:
    """Return the row of an allocation if its eviction is announced for the reason that was read."""
    rows = Allocation.objects.filter(pk=allocation.pk, state__in=RUNNING)
    return rows.filter(evict_at__isnull=False, end_reason=allocation.end_reason)


def begin_release(allocation: Allocation, *, reason: str, actor: str) -> None:
    """Invalidate the tickets and revoke the grants.

    The partitions stay occupied until their nodes report that they applied the new fence.
    """
    old = [AllocationState.PREPARING, *RUNNING]
    preparing = allocation.state == AllocationState.PREPARING
    if not transition(
        allocation,
        old,
        AllocationState.RELEASING,
        message=reason,
        actor=actor,
        end_reason=reason[:500],
        fence_counter=allocation.fence_counter + 1,
    ):
        return
    if preparing:  # in other states the task has ended
        task_end(path=allocation.path, kind=PREPARE_TASK, error=reason)
    forget_resize(allocation, reason)
    forget_suspension(allocation, reason)
    partitions = load_partitions([allocation.pk]).get(allocation.pk, [])
    generations = increment_generations(p.node_id for p in partitions)
    for p in partitions:
        SET_GENERATION(partition_id=p.pk, generation=generations[p.node_id])
    publish_partitions(partitions)


def forget_resize(allocation: Allocation, reason: str) -> None:
    """End a resize whose allocation is released."""
    task_end(path=allocation.path, kind=RESIZE_TASK, error=reason)
    if allocation.resize_requested_at is not None:
        Allocation.objects.filter(pk=allocation.pk).update(
            resize_requested_at=None, waiting_rule="", waiting_reason=""
        )


def forget_suspension(allocation: Allocation, reason: str) -> None:
    """End the suspension of an allocation that is released. Its sessions end suspended."""
    for kind in (SUSPEND_TASK, RESUME_TASK):
        task_end(path=allocation.path, kind=kind, error=reason)
    if allocation.suspension:
        Allocation.objects.filter(pk=allocation.pk).update(
            suspension="", suspension_reason="", suspension_reports={}
        )


def finish_release(allocation: Allocation) -> None:
    if transition(
        allocation,
        [AllocationState.RELEASING],
        AllocationState.RELEASED,
        message=f"Released: {allocation.end_reason}",
        ended_at=timezone.now(),
    ):
        task_end(path=allocation.path, kind=EVICT_TASK)
        transaction.on_commit(partial(leases.forget_lease, allocation.pk))
        transaction.on_commit(partial(idleness.forget_allocation, allocation.pk))
