"""GPUs that two nodes report, so that none is granted twice.

This happens if a machine is enrolled again under a new identity, runs a second agent in a
container, or if a GPU moves to another machine. The first node has the claim. The GPU of the other
is a duplicate, on which nothing is placed, until the claim ends: the first node is removed, or no
longer reports the GPU and has no partition on it. The constraint gpu_claimed_once decides between
reports at the same time.
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
from appliance.inventory.models import Gpu, Node, NodeState

if TYPE_CHECKING:
    from appliance.inventory.reports import ReportedGpu

MAX_NAMES = 4
"""GPUs that an event names."""
IN_USE = Q(taken_percent__gt=0) | Q(taken_memory_bytes__gt=0)
"""A GPU that its node does not list may still run sessions, for example if only NVML fails."""
ENDED_CLAIMS = Select(
    lambda: (
        Gpu.objects.filter(
            duplicate_of__present=False,
            duplicate_of__taken_percent=0,
            duplicate_of__taken_memory_bytes=0,
        )
        .order_by("duplicate_of")
        .values_list("duplicate_of")
        .distinct()
    )
)


def find_claims(node: Node, uuids: Iterable[UUID]) -> dict[UUID, Gpu]:
    """Return, by UUID, the GPUs of other nodes that have the claim. Their nodes are read."""
    rows = Gpu.objects.filter(Q(present=True) | IN_USE, uuid__in=list(uuids), duplicate_of=None)
    others = rows.exclude(node=node).exclude(node__state=NodeState.REMOVED)
    return {g.uuid: g for g in others.select_related("node").order_by("present")}


def emit_duplicates(
    node: Node, reported: Sequence[ReportedGpu], claims: Mapping[UUID, Gpu]
) -> None:
    """Record one event for all duplicates of a report, so that a node makes few events."""
    if not (found := [r for r in reported if r.uuid in claims]):
        return
    pairs = (f"{node.name}/{r.index} is {claims[r.uuid].short_name}" for r in found[:MAX_NAMES])
    more = f" and {len(found) - MAX_NAMES} more" if len(found) > MAX_NAMES else ""
    other = claims[found[0].uuid].node.name
    emit(
        "gpu.duplicate",
        path=node.path,
        object_id=node.pk,
        message=f"Node {node.name} reports GPUs that other nodes have: {', '.join(pairs)}{more}."
        " They are held. If the machine was enrolled again or the GPU moved, remove the old node:"
        f" `busbar node remove {other}`. If the machine runs two agents, stop and remove one.",
    )


def release_duplicates() -> None:
    """Release duplicates of GPUs whose claim has ended. Called every second."""
    if ENDED_CLAIMS.rows():
        pass_on_ended_claims()


@write_transaction
def pass_on_ended_claims() -> None:
    for (gpu_id,) in ENDED_CLAIMS.rows():
        pass_on_claim(gpu_id)


def pass_on_claim(gpu_id: UUID) -> None:
    """Give the claim of a GPU, which must not be present, to one of its duplicates.

    Must be called inside a transaction.
    """
    waiting = Gpu.objects.filter(duplicate_of=gpu_id).select_related("node", "pool")
    if not (found := list(waiting.order_by("-taken_percent", "pk"))):
        return
    first, *others = found
    Gpu.objects.filter(pk=first.pk).update(duplicate_of=None, version=F("version") + 1)
    ids = [gpu.pk for gpu in others]
    Gpu.objects.filter(pk__in=ids).update(duplicate_of=first, version=F("version") + 1)
    change_log.record_all(Topic.GPU_CAPACITY, [first.pk, *ids])
    emit(
        "gpu.duplicate_ended",
        path=first.path,
        object_id=first.pk,
        project_id=first.pool.event_project if first.pool else None,
        message=f"GPU {first.index} of {first.node.name} is no longer held as a duplicate:"
        " no other node has it.",
    )
