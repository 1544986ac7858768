"""Resizes of active allocations: the request, its grant, and the reports of the nodes.

Compute that is given back is free at once, because its node applies the smaller share together with
whatever is granted instead. Memory is free when the node reports that it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from django.db.models import F
from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.tasks import task_cancel, task_end, task_log, task_start
from appliance.allocations.active_allocations import load_sized_partitions
from appliance.allocations.grants import GrantedPartition, load_partitions
from appliance.allocations.lifecycle import RESIZE_TASK, emit_event, take_capacity
from appliance.allocations.models import Allocation, AllocationState, Partition
from appliance.allocations.placement import Request, partition_size
from appliance.allocations.sizes import Sized, SizedPartition, growth
from appliance.allocations.snapshot_loader import placement_request
from appliance.api.errors import ApplianceError, Code
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.prepared import Update
from appliance.inventory.generations import increment_generations
from appliance.pools.partition_memory import GRANULARITY_BYTES
from appliance.runtime.failpoints import failpoint

SET_SIZE = Update(
    lambda partition_id, memory_bytes, over_bytes, compute_percent, generation: (
        Partition.objects.filter(pk=partition_id),
        {
            "memory_bytes": memory_bytes,
            "over_bytes": over_bytes,
            "shrink_bytes": over_bytes,
            "compute_percent": compute_percent,
            "generation": generation,
            "resizing": True,
        },
    )
)
SET_OVER = Update(
    lambda partition_id, over_bytes, resizing: (
        Partition.objects.filter(pk=partition_id),
        {"over_bytes": over_bytes, "resizing": resizing},
    )
)


@dataclass(frozen=True, slots=True)
class Size:
    """A size as requests state it: 0 means in proportion to the other value."""

    percent: int
    memory_bytes: int
    compute_mode: str

    def is_of(self, p: Sized) -> bool:
        """Return whether the size gives the partition what it has."""
        request = Request(1, self.percent, self.memory_bytes)
        given = partition_size(p.gpu_memory_bytes, request)
        return given == (p.compute_percent, p.memory_bytes)


def requested_size(allocation: Allocation) -> Size:
    return Size(allocation.percent, allocation.memory_bytes, allocation.compute_mode)


def granted_size(allocation: Allocation, partitions: Sequence[Sized]) -> Size:
    """Return the size of the partitions as a request would state it."""
    percent, memory_bytes = partitions[0].compute_percent, partitions[0].memory_bytes
    mode = allocation.granted_compute_mode
    sizes = [Size(percent, 0, mode), Size(0, memory_bytes, mode), Size(percent, memory_bytes, mode)]
    return next((s for s in sizes if all(map(s.is_of, partitions))), sizes[-1])


def request_size(allocation: Allocation, size: Size, user: User) -> None:
    """Store the requested size of an active allocation, which now waits for it.

    Raises ApplianceError CONFLICT if another writer changed the allocation first.
    """
    before = describe(allocation)
    store_size(allocation, size, requested_at=timezone.now())
    message = f"{user.username} asked for {describe(allocation)} instead of {before}."
    emit_event(allocation, "allocation.resize_requested", message=message, actor=user.username)
    task_cancel(path=allocation.path, kind=RESIZE_TASK, reason="replaced by another resize")
    task_start(
        kind=RESIZE_TASK,
        path=allocation.path,
        initiator=user,
        project_id=allocation.project_id,
        message=f"{allocation.name or allocation.pk}: {message}",
    )


def withdraws(allocation: Allocation, size: Size, partitions: Sequence[SizedPartition]) -> bool:
    """Return whether the size is the granted one of an allocation that waits for another."""
    waits = allocation.resize_requested_at is not None
    same_mode = size.compute_mode == allocation.granted_compute_mode
    return waits and same_mode and all(map(size.is_of, partitions))


def withdraw(allocation: Allocation, size: Size, user: User) -> None:
    """End the wait of an allocation, which has the size. Its nodes need not learn of it.

    Raises ApplianceError CONFLICT if another writer changed the allocation first.
    """
    before = describe(allocation)
    store_size(allocation, size, requested_at=None)
    message = f"{user.username} withdrew {before}; the size stays {describe(allocation)}."
    emit_event(allocation, "allocation.resize_withdrawn", message=message, actor=user.username)
    partitions = load_partitions([allocation.pk]).get(allocation.pk, [])
    if any(p.resizing for p in partitions):  # `finish` ends the task with the earlier resize
        task_log(path=allocation.path, kind=RESIZE_TASK, message=message)
    else:
        reason = f"withdrawn by {user.username}"
        task_cancel(path=allocation.path, kind=RESIZE_TASK, reason=reason)


def store_size(allocation: Allocation, size: Size, requested_at: datetime | None) -> None:
    changes = asdict(size) | {
        "resize_requested_at": requested_at,
        "waiting_rule": "",
        "waiting_reason": "",
        "version": allocation.version + 1,
    }
    rows = Allocation.objects.filter(
        pk=allocation.pk, state=allocation.state, version=allocation.version
    )
    if not rows.update(**changes):
        raise ApplianceError(
            Code.CONFLICT, "The allocation changed concurrently; read it and try again."
        )
    change_log.record(Topic.ALLOCATION, allocation.pk)
    for name, value in changes.items():
        setattr(allocation, name, value)


def describe(allocation: Allocation) -> str:
    """Return the requested size, such as "2 × 45 % (shared)"."""
    parts = [f"{allocation.percent} %"] if allocation.percent else []
    if allocation.memory_bytes:
        granted = -(-allocation.memory_bytes // GRANULARITY_BYTES) * GRANULARITY_BYTES
        parts.append(f"{granted >> 20} MiB")
    return f"{allocation.gpu_count} × {' and '.join(parts)} ({allocation.compute_mode})"


def partitions_of(allocation: Allocation) -> list[SizedPartition]:
    return load_sized_partitions([allocation.pk]).get(allocation.pk, [])


def grant(allocation: Allocation) -> None:
    """Give the partitions the requested size.

    Raises IntegrityError if another scheduler has taken the capacity since it was read.
    """
    rows = Allocation.objects.filter(
        pk=allocation.pk, state=AllocationState.ACTIVE, version=allocation.version
    ).exclude(resize_requested_at=None)
    if not rows.update(
        granted_compute_mode=F("compute_mode"),
        resize_requested_at=None,
        waiting_rule="",
        waiting_reason="",
        version=F("version") + 1,
    ):
        return
    request, partitions = placement_request(allocation), partitions_of(allocation)
    added = growth(partitions, request)
    for s in sorted(added, key=lambda s: s.gpu_id):  # same order everywhere: no deadlock
        take_capacity(s.gpu_id, s.compute_percent, s.memory_bytes)
    failpoint("resize.taken")
    generations = increment_generations(p.node_id for p in partitions)
    for p in partitions:
        percent, memory_bytes = p.size_for(request)
        SET_SIZE(
            partition_id=p.pk,
            memory_bytes=memory_bytes,
            over_bytes=max(0, p.occupied_bytes - memory_bytes),
            compute_percent=percent,
            generation=generations[p.node_id],
        )
        change_log.record(Topic.PARTITION, p.pk)
    change_log.record(Topic.ALLOCATION_HOLDINGS, allocation.pk)
    emit_event(allocation, "allocation.resized", message=f"The size is {describe(allocation)} now.")


def confirm(
    allocation: Allocation,
    here: Sequence[GrantedPartition],
    generation: int,
    held: Sequence[int] | None,
) -> int:
    """Record what a node reports about the partitions of an allocation that are resized.

    `here` are all its partitions on the node, which has applied `generation`. `held` are the bytes
    that they hold, in the same order; None: the node does not tell. Returns the number of
    partitions that have given memory back.
    """
    freed = changed = 0
    for index, p in enumerate(here):
        if not p.resizing or p.generation > generation:
            continue
        over = p.over_bytes
        if held is not None and index < len(held):
            over = min(over, max(0, held[index] - p.memory_bytes))
        if over and over == p.over_bytes:
            continue
        changed += 1
        freed += record_over(p, over)
    if changed:
        change_log.record(Topic.ALLOCATION, allocation.pk)
        finish(allocation)
    return freed


def record_over(p: GrantedPartition, over_bytes: int) -> int:
    """Record the memory that a partition occupies beyond its size. Returns whether it is less."""
    SET_OVER(partition_id=p.pk, over_bytes=over_bytes, resizing=over_bytes > 0)
    change_log.record(Topic.PARTITION, p.pk)
    if over_bytes == p.over_bytes:
        return 0
    take_capacity(p.gpu_id, 0, over_bytes - p.over_bytes)
    failpoint("resize.freed")
    change_log.record(Topic.ALLOCATION_HOLDINGS, p.allocation_id)
    return 1


def finish(allocation: Allocation) -> None:
    """Announce the end of a resize when all nodes have applied it and hold no more than it."""
    partitions = load_partitions([allocation.pk]).get(allocation.pk, [])
    if allocation.resize_requested_at is not None or any(p.resizing for p in partitions):
        return
    message = f"All nodes have applied {describe(allocation)}."
    emit_event(allocation, "allocation.resize_finished", message=message)
    task_end(path=allocation.path, kind=RESIZE_TASK)
