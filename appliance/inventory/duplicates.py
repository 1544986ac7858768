"""GPUs that two nodes report, so that none is granted twice.

This happens if a machine is enrolled again under a new identity, runs a second agent in a
container, or if a GPU moves to another machine. The first node has the claim. The GPU of the other
is a duplicate, on which nothing is placed, until the claim ends: the first node is removed, or no
longer reports the GPU and has no partition on it. A GPU that no operator admitted has no claim
against an admitted one. The constraint gpu_claimed_once decides between reports at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import F, Q

from appliance.activity.events import emit
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.prepared import Select
from appliance.db.writer import write_transaction
from appliance.inventory.models import Gpu, GpuQuerySet, Node, NodeState
from appliance.runtime.each import run_each

if TYPE_CHECKING:
    from appliance.inventory.reports import ReportedGpu

MAX_NAMES = 4
"""GPUs that an event names."""
IN_USE = Q(taken_percent__gt=0) | Q(taken_memory_bytes__gt=0)
"""A GPU that its node does not list may still run sessions, for example if only NVML fails."""
ENDED = Q(
    duplicate_of__present=False,
    duplicate_of__taken_percent=0,
    duplicate_of__taken_memory_bytes=0,
)
ENDED_CLAIMS = Select(
    lambda: (
        Gpu.objects.filter(ENDED).order_by("duplicate_of").values_list("duplicate_of").distinct()
    )
)


def claims_of(uuids: Iterable[UUID]) -> GpuQuerySet:
    """Return the GPUs that have the claim, those that their nodes list last."""
    rows = Gpu.objects.filter(Q(present=True) | IN_USE, uuid__in=list(uuids), duplicate_of=None)
    return rows.exclude(node__state=NodeState.REMOVED).order_by("present")


def find_claims(node: Node, uuids: Iterable[UUID]) -> dict[UUID, Gpu]:
    """Return, by UUID, the GPUs of other nodes that have the claim. Their nodes are read."""
    rows = claims_of(uuids).exclude(node=node)
    return {g.uuid: g for g in rows.select_related("node")}


def emit_reported(node: Node, reported: Sequence[ReportedGpu], claims: Mapping[UUID, Gpu]) -> None:
    """Record one event for all duplicates of a report, so that a node makes few events."""
    emit_duplicates(node, [(r.index, claims[r.uuid]) for r in reported if r.uuid in claims])


def emit_duplicates(node: Node, found: Sequence[tuple[int, Gpu]]) -> None:
    """Record an event for GPUs of a node, by their index, and those that have the claims.

    The list is at the end, because long events are cut.
    """
    if not found:
        return
    pairs = (f"{node.name}/{index} is {claim.short_name}" for index, claim in found[:MAX_NAMES])
    more = f" and {len(found) - MAX_NAMES} more" if len(found) > MAX_NAMES else ""
    other = found[0][1].node.name
    emit(
        "gpu.duplicate",
        path=node.path,
        object_id=node.pk,
        message=f"Node {node.name} reports GPUs that other nodes have; they are held. If the"
        " machine was enrolled again or the GPU moved, remove the old node:"
        f" `busbar node remove {other}`. If the machine runs two agents, stop and remove one."
        f" GPUs: {', '.join(pairs)}{more}.",
    )


def take_from_held(rows: GpuQuerySet) -> set[UUID]:
    """Give admitted GPUs among these the claims that held ones have. Return their UUIDs.

    A node could otherwise take a GPU out of service that no operator let it add. `rows` must not
    have two GPUs with one UUID.
    """
    admitted = rows.filter(held=False, duplicate_of__held=True)
    found = list(admitted.select_related("node", "duplicate_of__node").order_by("duplicate_of"))
    losers: dict[Node, list[tuple[int, Gpu]]] = {}
    for gpu, loser in ((g, g.duplicate_of) for g in found if g.duplicate_of):
        wait_for(gpu.pk, Gpu.objects.filter(pk=loser.pk))  # first: two claims are refused
        claim_again(gpu)
        wait_for(gpu.pk, Gpu.objects.filter(duplicate_of=loser))
        losers.setdefault(loser.node, []).append((loser.index, gpu))
    for node, lost in losers.items():
        emit_duplicates(node, lost)
    return {gpu.uuid for gpu in found}


def claim_again(gpu: Gpu) -> int:
    """Make a duplicate the claim. Return 0 if another controller has changed it since."""
    rows = Gpu.objects.filter(pk=gpu.pk, duplicate_of=gpu.duplicate_of_id)
    changed = rows.update(duplicate_of=None, version=F("version") + 1)
    change_log.record(Topic.GPU_CAPACITY, gpu.pk)
    change_log.record(Topic.GPU, gpu.pk)
    return changed


def wait_for(claim_id: UUID, rows: GpuQuerySet) -> None:
    """Make other rows duplicates of the GPU that has the claim."""
    ids = list(rows.exclude(pk=claim_id).values_list("pk", flat=True))
    rows.filter(pk__in=ids).update(duplicate_of=claim_id, version=F("version") + 1)
    change_log.record_all(Topic.GPU_CAPACITY, ids)
    change_log.record_all(Topic.GPU, ids)


def release_duplicates() -> None:
    """Release duplicates of GPUs whose claim has ended. Called every second.

    Each claim is passed on by itself, so that the error of one, such as a race that another
    controller won, stops neither the others nor the scheduler.
    """
    ended = [gpu_id for (gpu_id,) in ENDED_CLAIMS.rows()]
    run_each("duplicates: passing on of claim", ended, pass_on_ended_claim)


@write_transaction
def pass_on_ended_claim(gpu_id: UUID) -> None:
    if Gpu.objects.filter(ENDED, duplicate_of=gpu_id).exists():  # it may have returned
        pass_on_claim(gpu_id)


def pass_on_claim(gpu_id: UUID) -> None:
    """Give the claim of a GPU, which must not be present, to one of its duplicates.

    Another node may have reported the GPU since the claim ended: then it has the claim. Must be
    called inside a transaction.
    """
    waiting = Gpu.objects.filter(duplicate_of=gpu_id)
    # An admitted GPU first, and of those the one in use.
    first = waiting.select_related("node", "pool").order_by("held", "-taken_percent", "pk").first()
    if first is None:
        return
    if claim := claims_of([first.uuid]).exclude(pk=gpu_id).last():
        wait_for(claim.pk, waiting)
        take_from_held(Gpu.objects.filter(pk=first.pk))
    elif claim_again(first):
        wait_for(first.pk, waiting)
        emit_ended(first)


def emit_ended(gpu: Gpu) -> None:
    emit(
        "gpu.duplicate_ended",
        path=gpu.path,
        object_id=gpu.pk,
        project_id=gpu.pool.event_project if gpu.pool else None,
        message=f"GPU {gpu.index} of {gpu.node.name} is no longer held as a duplicate:"
        " no other node has it.",
    )
