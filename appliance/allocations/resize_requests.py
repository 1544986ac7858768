"""The service that resizes an active allocation."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from appliance.accounts.actions import raise_refusal
from appliance.accounts.models import User
from appliance.allocations import resizing, sizes
from appliance.allocations.actions import resize_refusals
from appliance.allocations.index import index
from appliance.allocations.limits import check_limits
from appliance.allocations.models import Allocation
from appliance.allocations.queries import allocation_by_id
from appliance.allocations.resizing import Size
from appliance.allocations.scheduler import raise_failure, run_tick, run_tick_for_others
from appliance.allocations.sizes import SizedPartition
from appliance.allocations.snapshot import (
    ActiveAllocations,
    PendingAllocation,
    SchedulerSnapshot,
)
from appliance.allocations.snapshot_allocations import placement_request
from appliance.allocations.snapshot_loader import load_snapshot
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed
from appliance.db.writer import write_transaction
from appliance.runtime import disk_space


@write_transaction
def resize(
    *, allocation_id: UUID, percent: int | None, memory_bytes: int | None, user: User
) -> None:
    """Change the requested size of an active allocation; None keeps a value.

    A size that needs no more capacity is granted at once. Growth is granted at once if the
    scheduler finds the capacity; otherwise the allocation keeps its size and waits in the queue.
    The current size as the request withdraws a resize that waits.

    Raises:
        ApplianceError: DENIED for others than owner and managers, CONFLICT if the allocation is
            not active or changed concurrently, NOT_SUPPORTED if a node cannot resize allocations,
            INVALID for a size of nothing, UNSATISFIABLE if its GPUs or the limits can never give
            the size, DISK_FULL if it would have to grow and the appliance has too little space.
    """
    allocation = allocation_by_id(allocation_id)
    (refusal,) = resize_refusals(user, [allocation])
    raise_refusal(refusal)
    size = Size(
        allocation.percent if percent is None else percent,
        allocation.memory_bytes if memory_bytes is None else memory_bytes,
    )
    if size == Size(allocation.percent, allocation.memory_bytes):
        return
    if not size.percent and not size.memory_bytes:
        raise ApplianceError(Code.INVALID, "percent and memory_bytes must not both be 0.")
    before = values_of(allocation)
    resizing.request_size(allocation, size, user)
    record_changed(allocation, before)
    partitions = resizing.partitions_of(allocation)
    if sizes.needs_capacity(sizes.growth(partitions, placement_request(allocation))):
        wait_for_capacity(allocation, partitions)
    else:
        resizing.grant(allocation)
        run_tick_for_others()


def wait_for_capacity(allocation: Allocation, partitions: list[SizedPartition]) -> None:
    if disk_space.refuses_grants():
        raise ApplianceError(
            Code.DISK_FULL,
            "The disk of the appliance is nearly full, so nothing is granted. Ask an administrator"
            " to free space.",
        )
    wait = run_tick().get(allocation.pk)
    raise_failure(wait)
    if wait is None:
        return
    snapshot, queued = load_snapshot(index.refresh(), [allocation])
    if reason := reason_against(snapshot, queued[allocation.pk][1], partitions):
        raise ApplianceError(
            Code.UNSATISFIABLE, f"The allocation can never have this size. {reason}"
        )


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
