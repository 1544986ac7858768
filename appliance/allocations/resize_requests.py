"""The service that changes the size and compute mode of an active allocation."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from appliance.accounts.actions import raise_refusal
from appliance.accounts.models import User
from appliance.activity.tasks import advise_to_cancel
from appliance.allocations import resizing, sizes
from appliance.allocations.actions import (
    older_node_refusals,
    resize_refusals,
    suspended_refusal,
)
from appliance.allocations.index import index
from appliance.allocations.lifecycle import RESIZE_TASK
from appliance.allocations.limits import check_limits
from appliance.allocations.models import Allocation
from appliance.allocations.placement import WHOLE_PERCENT, ComputeMode
from appliance.allocations.queries import allocation_by_id
from appliance.allocations.resizing import Size, requested_size
from appliance.allocations.scheduler import (
    raise_failure,
    refuse_on_full_disk,
    run_tick,
    run_tick_for_others,
)
from appliance.allocations.sizes import SizedPartition
from appliance.allocations.snapshot import (
    ActiveAllocations,
    PendingAllocation,
    SchedulerSnapshot,
)
from appliance.allocations.snapshot_loader import load_snapshot, placement_request
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed
from appliance.db.writer import write_transaction
from appliance.pools.partition_memory import lack_of_context_room

WHOLE = Size(WHOLE_PERCENT, 0, ComputeMode.EXCLUSIVE)


@write_transaction
def resize(
    *,
    allocation_id: UUID,
    user: User,
    percent: int | None = None,
    memory_bytes: int | None = None,
    compute_mode: str | None = None,
) -> None:
    """Change the requested size and compute mode of an active allocation; None keeps a value.

    What needs no more capacity is granted at once. Growth is granted at once if the scheduler finds
    the capacity; otherwise the allocation keeps its size and mode and waits in the queue. The
    current size and mode as the request withdraw a resize that waits, and another mode alone
    withdraws one to whole GPUs. Allocations that have notice only for a resize that is withdrawn or
    replaced go on.

    Raises:
        ApplianceError: DENIED for others than owner and managers, CONFLICT if the allocation is
            not active (a suspended one can withdraw a resize), has whole GPUs or changed
            concurrently, NOT_SUPPORTED if a node cannot resize allocations, except to withdraw a
            resize, INVALID for a size of nothing, UNSATISFIABLE if its GPUs or the limits can never
            give the size, or a CUDA context needs more memory, DISK_FULL if it would have to grow
            and the appliance has too little space.
    """
    allocation = allocation_by_id(allocation_id)
    (refusal,) = resize_refusals(user, [allocation])
    raise_refusal(refusal)
    size = wanted_size(allocation, percent, memory_bytes, compute_mode)
    if size == requested_size(allocation):
        return raise_refusal(suspended_refusal(allocation))
    check_size(size)
    partitions = resizing.partitions_of(allocation)
    if resizing.withdraws(allocation, size, partitions):
        return withdraw(allocation, size, user)
    raise_refusal(suspended_refusal(allocation))
    before = values_of(allocation)
    resizing.request_size(allocation, size, user)
    record_changed(allocation, before)
    grant_or_wait(allocation, partitions)


def withdraw(allocation: Allocation, size: Size, user: User) -> None:
    before = values_of(allocation)
    resizing.withdraw(allocation, size, user)
    record_changed(allocation, before)
    run_tick_for_others()


def grant_or_wait(allocation: Allocation, partitions: list[SizedPartition]) -> None:
    check_nodes(allocation, partitions)
    check_context_room(allocation, partitions)
    if sizes.needs_capacity(sizes.growth(partitions, placement_request(allocation))):
        wait_for_capacity(allocation, partitions)
    else:
        resizing.grant(allocation)
        run_tick_for_others()


def wanted_size(
    allocation: Allocation, percent: int | None, memory_bytes: int | None, compute_mode: str | None
) -> Size:
    if compute_mode == ComputeMode.EXCLUSIVE:
        return WHOLE  # a size is ignored, as in the request of an allocation
    present = requested_size(allocation)
    if compute_mode and waits_for_whole_gpus(allocation):
        present = resizing.granted_size(allocation, resizing.partitions_of(allocation))
    return Size(
        present.percent if percent is None else percent,
        present.memory_bytes if memory_bytes is None else memory_bytes,
        compute_mode or present.compute_mode,
    )


def waits_for_whole_gpus(allocation: Allocation) -> bool:
    wanted, granted = allocation.compute_mode, allocation.granted_compute_mode
    return wanted == ComputeMode.EXCLUSIVE and granted != ComputeMode.EXCLUSIVE


def check_size(size: Size) -> None:
    if size.compute_mode == ComputeMode.EXCLUSIVE and size != WHOLE:
        raise ApplianceError(
            Code.CONFLICT,
            "The allocation has whole GPUs or waits for them, because its compute mode is"
            " exclusive. Give another compute_mode with the size.",
        )
    if not size.percent and not size.memory_bytes:
        raise ApplianceError(
            Code.INVALID,
            "percent and memory_bytes must not both be 0. With percent 0 give memory_bytes as well;"
            " with memory_bytes 0 give percent.",
        )


def check_nodes(allocation: Allocation, partitions: list[SizedPartition]) -> None:
    """Raise ApplianceError NOT_SUPPORTED for an older node, unless its grant stays as it is."""
    is_same_mode = allocation.compute_mode == allocation.granted_compute_mode
    if not is_same_mode or not sizes.is_granted(partitions, placement_request(allocation)):
        raise_refusal(older_node_refusals([allocation.pk]).get(allocation.pk))


def check_context_room(allocation: Allocation, partitions: list[SizedPartition]) -> None:
    request = placement_request(allocation)
    for p in partitions:
        _, memory_bytes = p.size_for(request)
        if memory_bytes == p.memory_bytes:  # granted before its node told the context
            continue
        if lack := lack_of_context_room(p.gpu__context_bytes, memory_bytes):
            raise impossible(f"Its GPUs {lack}.")


def impossible(reason: str) -> ApplianceError:
    return ApplianceError(Code.UNSATISFIABLE, f"The allocation can never have this size. {reason}")


def wait_for_capacity(allocation: Allocation, partitions: list[SizedPartition]) -> None:
    refuse_on_full_disk()
    wait = run_tick().get(allocation.pk)
    raise_failure(wait)
    if wait is None:
        return
    snapshot, queued = load_snapshot(index.refresh(), [allocation])
    if reason := reason_against(snapshot, queued[allocation.pk][1], partitions):
        raise impossible(reason)


def reason_against(
    snapshot: SchedulerSnapshot, pending: PendingAllocation, partitions: list[SizedPartition]
) -> str:
    """Return why the size is impossible even if nothing else ran, or an empty string."""
    for p in partitions:
        percent, memory_bytes = p.size_for(pending.request)
        if percent > 100 or memory_bytes > p.gpu__memory_bytes:
            return f"One of its GPUs has {p.gpu__memory_bytes >> 20} MiB."
    idle = replace(snapshot, active=ActiveAllocations())
    alone = replace(pending, growth=())
    wait = check_limits(idle, alone, sizes.whole(partitions, pending.request))
    return wait.reason if wait else ""


advise_to_cancel(
    RESIZE_TASK,
    "A resize of the allocation to its present size and mode withdraws one that waits, and a"
    " larger size ends a shrink.",
)
