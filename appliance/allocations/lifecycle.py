"""The states of an allocation and the rows that follow them. Every transition is a guarded update and one event. Inside a transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from appliance.activity.feed import hub
from appliance.activity.services import SYSTEM, emit, task_end
from appliance.allocations import holding, idleness
from appliance.allocations.index import touch_allocation, touch_gpus
from appliance.allocations.models import Allocation, AllocationState, Partition
from appliance.allocations.placement import Share
from appliance.failpoints import reach
from appliance.inventory.models import Gpu
from appliance.inventory.services import raise_generation
from appliance.prepared import Delete, Select, Update, insert
from appliance.telemetry import series

TRANSITION = Update(
    lambda allocation_id, old, known, **changes: (
        Allocation.objects.filter(pk=allocation_id, state__in=old, version=known),
        changes,
    ),
)
TAKE = Update(
    lambda gpu_id, percent, memory_bytes: (
        Gpu.objects.filter(pk=gpu_id),
        {
            "taken_percent": F("taken_percent") + percent,
            "taken_memory_bytes": F("taken_memory_bytes") + memory_bytes,
        },
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
    """True when this call made the change: one row, or it did not happen."""
    after = {"state": str(new), "version": allocation.version + 1, **changes}
    won = TRANSITION(
        allocation_id=allocation.pk,
        old=[str(state) for state in old],
        known=allocation.version,
        **after,
    )
    if won:
        touch_allocation(allocation.pk)
        if new == AllocationState.ACTIVE:
            idleness.began(allocation.pk)
        emit(
            f"allocation.{new}",
            path=allocation.path,
            object_id=allocation.pk,
            project_id=allocation.project_id,
            actor=actor,
            message=message,
        )
        for name, value in after.items():
            setattr(allocation, name, value)
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
    reach("grant.taken")
    touch_allocation(allocation.pk)
    generations = raise_generation(s.node_id for s in shares)
    for i, s in enumerate(shares):
        made = Partition(
            allocation=allocation, gpu_id=s.gpu_id, position=i, memory_bytes=s.memory_bytes, compute_percent=s.compute_percent,
            generation=generations[s.node_id],
        )  # fmt: skip
        hub.changed("partition", insert(made).pk)
    hub.changed("allocation", allocation.pk)


PREPARE_TASK, EVICT_TASK = "allocation.prepare", "allocation.evict"


class Granted(NamedTuple):
    """A partition and how far its node is."""

    id: UUID
    allocation_id: UUID
    gpu_id: UUID
    node_id: UUID
    memory_bytes: int
    compute_percent: int
    generation: int
    applied_generation: int


def partitions_of(allocation_ids: Iterable[UUID]) -> dict[UUID, list[Granted]]:
    found: dict[UUID, list[Granted]] = {}
    ids = list(allocation_ids)
    for row in GRANTED.rows(allocation_ids=ids) if ids else ():
        found.setdefault(row[1], []).append(Granted(*row))
    return found


def partitions_on(node_id: UUID, states: Collection[str]) -> dict[UUID, list[Granted]]:
    """The node's, of allocations in these states."""
    found: dict[UUID, list[Granted]] = {}
    for *row, state in GRANTED_ON.rows(node_id=node_id):
        if state in states:
            found.setdefault(row[1], []).append(Granted(*row))
    return found


COLUMNS = (
    "pk",
    "allocation_id",
    "gpu_id",
    "gpu__node_id",
    "memory_bytes",
    "compute_percent",
    "generation",
    "gpu__node__applied_generation",
)
GRANTED = Select(
    lambda allocation_ids: (
        Partition.objects.filter(allocation_id__in=allocation_ids)
        .order_by("position")
        .values_list(*COLUMNS)
    )
)
GRANTED_ON = Select(
    lambda node_id: (
        Partition.objects.filter(gpu__node_id=node_id)
        .order_by("position")
        .values_list(*COLUMNS, "allocation__state")
    )
)


def activate(allocation: Allocation, partitions: Iterable[Granted]) -> None:
    if transition(
        allocation,
        [AllocationState.PREPARING],
        AllocationState.ACTIVE,
        message="Ready for sessions.",
        active_at=timezone.now(),
    ):
        show(partitions)
        task_end(path=allocation.path, kind=PREPARE_TASK)


def show(partitions: Iterable[Granted]) -> None:
    """Their rows tell the state of their allocation."""
    for p in partitions:
        hub.changed("partition", p.id)


def take(gpu_id: UUID, percent: int, memory_bytes: int) -> None:
    touch_gpus([gpu_id])
    TAKE(gpu_id=gpu_id, percent=percent, memory_bytes=memory_bytes)


def free(partitions: Sequence[Granted]) -> int:
    """Deletes the rows, gives their room back and tells the browsers."""
    for p in partitions:
        if DELETE_PARTITION(partition_id=p.id):
            take(p.gpu_id, -p.compute_percent, -p.memory_bytes)
            reach("partition.freed")
            touch_allocation(p.allocation_id)
        transaction.on_commit(partial(series.end, p.id))
        hub.gone("partition", p.id, "inventory.view")
    return len(partitions)


def leave_queue(allocation: Allocation, *, reason: str, actor: str) -> None:
    if transition(
        allocation, [AllocationState.WAITING], AllocationState.RELEASED, message=f"Left the queue: {reason}", actor=actor,
        end_reason=reason[:500], ended_at=timezone.now(), waiting_reason="", waiting_rule="",
    ):  # fmt: skip
        task_end(path=allocation.path, kind=PREPARE_TASK, error=reason)


def announce_end(allocation: Allocation, *, reason: str, actor: str, seconds: float) -> None:
    """Notice: it goes on until then, and its holder can finish."""
    at = timezone.now() + timedelta(seconds=seconds)
    held = Allocation.objects.filter(pk=allocation.pk, state=AllocationState.ACTIVE, evict_at=None)
    touch_allocation(allocation.pk)
    if held.update(evict_at=at, end_reason=reason[:500], version=F("version") + 1):
        message = f"It ends in {seconds:.0f} s: {reason}"
        emit(
            "allocation.evicting",
            path=allocation.path,
            object_id=allocation.pk,
            project_id=allocation.project_id,
            actor=actor,
            message=message,
        )


def withdraw_end(allocation: Allocation, *, actor: str) -> None:
    """The reason for the notice is gone."""
    held = Allocation.objects.filter(pk=allocation.pk, state=AllocationState.ACTIVE).exclude(
        evict_at=None
    )
    touch_allocation(allocation.pk)
    if held.update(evict_at=None, end_reason="", version=F("version") + 1):
        message = "It may stay: the notice was withdrawn."
        emit(
            "allocation.eviction_withdrawn",
            path=allocation.path,
            object_id=allocation.pk,
            project_id=allocation.project_id,
            actor=actor,
            message=message,
        )


def begin_release(allocation: Allocation, *, reason: str, actor: str) -> None:
    """Its tickets stop working. Its partitions stay occupied until their nodes report the fence applied."""
    old = [AllocationState.PREPARING, AllocationState.ACTIVE, AllocationState.SUSPENDED]
    changes = {"end_reason": reason[:500], "fence_counter": allocation.fence_counter + 1}
    prepared = allocation.state != AllocationState.PREPARING
    if transition(
        allocation, old, AllocationState.RELEASING, message=reason, actor=actor, **changes
    ):
        if not prepared:  # otherwise that task has ended
            task_end(path=allocation.path, kind=PREPARE_TASK, error=reason)
        mine = partitions_of([allocation.pk]).get(allocation.pk, [])
        generations = raise_generation(p.node_id for p in mine)
        for p in mine:
            SET_GENERATION(partition_id=p.id, generation=generations[p.node_id])
        show(mine)


def finish_release(allocation: Allocation) -> bool:
    message, ended_at = f"Released: {allocation.end_reason}", timezone.now()
    if not transition(
        allocation,
        [AllocationState.RELEASING],
        AllocationState.RELEASED,
        message=message,
        ended_at=ended_at,
    ):
        return False
    task_end(path=allocation.path, kind=EVICT_TASK)
    transaction.on_commit(partial(holding.forget, allocation.pk))
    transaction.on_commit(partial(idleness.forget, allocation.pk))
    return True
