"""The states of an allocation and the rows that follow them. Every transition is a guarded update and one event. Inside a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from django.db.models import F, QuerySet
from django.utils import timezone

from appliance.activity.feed import hub
from appliance.activity.services import SYSTEM, emit, task_end
from appliance.allocations import holding, idleness
from appliance.allocations.index import touch_allocation, touch_gpus
from appliance.allocations.models import Allocation, AllocationState, Partition
from appliance.allocations.placement import Share
from appliance.inventory.models import Gpu
from appliance.inventory.services import raise_generation
from appliance.telemetry import series


def transition(allocation: Allocation, old: Iterable[str], new: AllocationState, *, message: str, actor: str = SYSTEM, **changes: object) -> bool:
    """True when this call made the change: one row, or it did not happen."""
    won = Allocation.objects.filter(pk=allocation.pk, state__in=list(old), version=allocation.version).update(
        state=new, version=allocation.version + 1, **changes
    )
    if won:
        touch_allocation(allocation.pk)
        if new == AllocationState.ACTIVE:
            idleness.began(allocation.pk)
        emit(f"allocation.{new}", path=allocation.path, object_id=allocation.pk, project_id=allocation.project_id, actor=actor, message=message)
        if any(hasattr(value, "resolve_expression") for value in changes.values()):
            allocation.refresh_from_db()
        else:
            for name, value in {"state": new, "version": allocation.version + 1, **changes}.items():
                setattr(allocation, name, value)
        if new in (AllocationState.ACTIVE, AllocationState.RELEASING, AllocationState.SUSPENDED):  # before and after these it has none
            for partition_id in allocation.partitions.values_list("pk", flat=True):
                hub.changed("partition", partition_id)
    return bool(won)


def prepare(allocation: Allocation, pool_id: UUID, shares: Sequence[Share]) -> None:
    """Grants the shares. The database refuses what another scheduler has given meanwhile (IntegrityError): then nothing happened."""
    if not transition(
        allocation, [AllocationState.WAITING], AllocationState.PREPARING, message="A place was found; its nodes are told.",
        waiting_reason="", waiting_rule="", placed_pool_id=pool_id,
    ):  # fmt: skip
        return
    for s in sorted(shares, key=lambda s: s.gpu_id):  # one order for all schedulers: no deadlock
        take(s.gpu_id, s.compute_percent, s.memory_bytes)
    touch_allocation(allocation.pk)
    generations = raise_generation(s.node_id for s in shares)
    created = Partition.objects.bulk_create(
        Partition(
            allocation=allocation, gpu_id=s.gpu_id, position=i, memory_bytes=s.memory_bytes, compute_percent=s.compute_percent,
            generation=generations[s.node_id],
        )
        for i, s in enumerate(shares)
    )  # fmt: skip
    for p in created:
        hub.changed("partition", p.pk)
    hub.changed("allocation", allocation.pk)


def take(gpu_id: UUID, percent: int, memory_bytes: int) -> None:
    touch_gpus([gpu_id])
    Gpu.objects.filter(pk=gpu_id).update(taken_percent=F("taken_percent") + percent, taken_memory_bytes=F("taken_memory_bytes") + memory_bytes)


def free(partitions: QuerySet[Partition]) -> int:
    """Deletes the rows, gives their room back and tells the browsers."""
    rows = list(partitions)
    for p in rows:
        if Partition.objects.filter(pk=p.pk).delete()[0]:
            take(p.gpu_id, -p.compute_percent, -p.memory_bytes)
            touch_allocation(p.allocation_id)
        series.end(p.pk)
        hub.gone("partition", p.pk, "inventory.view")
    return len(rows)


def leave_queue(allocation: Allocation, *, reason: str, actor: str) -> None:
    if transition(
        allocation, [AllocationState.WAITING], AllocationState.RELEASED, message=f"Left the queue: {reason}", actor=actor,
        end_reason=reason[:500], ended_at=timezone.now(), waiting_reason="", waiting_rule="",
    ):  # fmt: skip
        task_end(path=allocation.path, kind="allocation.prepare", error=reason)


def announce_end(allocation: Allocation, *, reason: str, actor: str, seconds: float) -> None:
    """Notice: it goes on until then, and its holder can finish."""
    at = timezone.now() + timedelta(seconds=seconds)
    held = Allocation.objects.filter(pk=allocation.pk, state=AllocationState.ACTIVE, evict_at=None)
    touch_allocation(allocation.pk)
    if held.update(evict_at=at, end_reason=reason[:500], version=F("version") + 1):
        message = f"It ends in {seconds:.0f} s: {reason}"
        emit("allocation.evicting", path=allocation.path, object_id=allocation.pk, project_id=allocation.project_id, actor=actor, message=message)


def withdraw_end(allocation: Allocation, *, actor: str) -> None:
    """The reason for the notice is gone."""
    held = Allocation.objects.filter(pk=allocation.pk, state=AllocationState.ACTIVE).exclude(evict_at=None)
    touch_allocation(allocation.pk)
    if held.update(evict_at=None, end_reason="", version=F("version") + 1):
        message = "It may stay: the notice was withdrawn."
        emit("allocation.eviction_withdrawn", path=allocation.path, object_id=allocation.pk, project_id=allocation.project_id, actor=actor, message=message)


def begin_release(allocation: Allocation, *, reason: str, actor: str) -> None:
    """Its tickets stop working. Its partitions stay occupied until their nodes report the fence applied."""
    old = [AllocationState.PREPARING, AllocationState.ACTIVE, AllocationState.SUSPENDED]
    changes = {"end_reason": reason[:500], "fence_counter": F("fence_counter") + 1}
    if transition(allocation, old, AllocationState.RELEASING, message=reason, actor=actor, **changes):
        task_end(path=allocation.path, kind="allocation.prepare", error=reason)
        nodes = dict(allocation.partitions.values_list("pk", "gpu__node_id"))
        generations = raise_generation(nodes.values())
        for partition_id, node_id in nodes.items():
            Partition.objects.filter(pk=partition_id).update(generation=generations[node_id])


def finish_release(allocation: Allocation) -> bool:
    message, ended_at = f"Released: {allocation.end_reason}", timezone.now()
    if not transition(allocation, [AllocationState.RELEASING], AllocationState.RELEASED, message=message, ended_at=ended_at):
        return False
    holding.forget(allocation.pk)
    idleness.forget(allocation.pk)
    return True
