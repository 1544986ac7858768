"""Admission of GPUs that a node reports after its enrolment.

A node could otherwise add capacity that does not exist. The first GPUs of an enrolled machine need
no admission, because an operator made its enrolment token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from django.db.models import F

from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record
from appliance.db import change_log
from appliance.db.change_log import Removal, Topic
from appliance.db.writer import write_transaction
from appliance.inventory.actions import no_pool
from appliance.inventory.duplicates import pass_on_claim, take_from_held
from appliance.inventory.models import Gpu, Node
from appliance.pools.models import Pool
from appliance.pools.services import find_pool

if TYPE_CHECKING:
    from appliance.inventory.reports import ReportedGpu

MAX_ADMITTED_GPUS = 256
"""Rows of one node, with missing GPUs. Beyond it, each further GPU needs an operator."""


def add_gpus(node: Node, reported: Sequence[ReportedGpu], claims: Mapping[UUID, Gpu]) -> None:
    """Create rows for GPUs of a node that are not known. They join the oldest pool or are held.

    `claims` are GPUs of other nodes with the same UUID.
    """
    pool = Pool.objects.oldest(simulated=node.simulated)
    by_rule = pool is not None and pool.admit_new_gpus
    room = MAX_ADMITTED_GPUS - Gpu.objects.filter(node=node, held=False).count()
    admitted = (node.expects_gpus or by_rule) and len(reported) <= room
    for report in reported:
        gpu = Gpu.objects.create(
            node=node,
            pool=pool if admitted else None,
            held=not admitted,
            uuid=report.uuid,
            duplicate_of=claims.get(report.uuid),
            **report.columns(),
        )
        if admitted:
            message = f"GPU {report.index} of {node.name} found: {report.model}."
            emit("gpu.found", path=gpu.path, object_id=gpu.pk, message=message)
    if not admitted:
        emit_held(node, reported)


def refuse_mixture(gpu: Gpu, pool: Pool) -> None:
    """Raise ApplianceError INVALID if only one of GPU and pool is simulated. Reads the node.

    A request could otherwise get a GPU that does not exist.
    """
    if gpu.node.simulated != pool.simulated:
        kinds = "simulated" if pool.simulated else "real"
        raise ApplianceError(
            Code.INVALID,
            f"GPU {gpu.short_name} cannot join pool {pool.name}, which has {kinds} GPUs only.",
        )


def emit_held(node: Node, reported: Sequence[ReportedGpu]) -> None:
    """Record one event for all held GPUs of a report, so that a node makes few events."""
    names = ", ".join(f"{node.name}/{r.index}" for r in reported[:4])
    more = f" and {len(reported) - 4} more" if len(reported) > 4 else ""
    emit(
        "gpu.held",
        path=node.path,
        object_id=node.pk,
        message=f"Node {node.name} reported new GPUs: {names}{more}. They are held until they are"
        " admitted with `busbar gpu admit`.",
    )


def forget_held(node: Node, reported: Sequence[UUID]) -> int:
    """Delete held GPUs that the node no longer reports: nothing ever used them. Return how many."""
    forgotten = list(Gpu.objects.filter(node=node, held=True).exclude(uuid__in=reported))
    for gpu in forgotten:
        change_log.record(Topic.GPU, gpu.pk, Removal("inventory.manage"))
        Gpu.objects.filter(pk=gpu.pk).update(present=False)
        pass_on_claim(gpu.pk)
        Gpu.objects.filter(pk=gpu.pk).delete()
    return len(forgotten)


@write_transaction
def admit_gpu(*, gpu_id: UUID, pool_name: str | None, actor: str) -> None:
    """Admit a held GPU to a pool, the oldest one by default.

    Does nothing if it is admitted already. Raises ApplianceError NOT_FOUND without such a pool,
    and INVALID for a pool of the other kind (`refuse_mixture`).
    """
    gpu = Gpu.objects.select_related("node").get(pk=gpu_id)
    simulated = gpu.node.simulated
    pool = find_pool(pool_name) if pool_name else Pool.objects.oldest(simulated=simulated)
    if pool is None:
        raise no_pool()
    refuse_mixture(gpu, pool)
    record(gpu, "admitted", {"held": gpu.held}, {"held": False})
    if not Gpu.objects.filter(pk=gpu_id, held=True).update(
        held=False, pool=pool, version=F("version") + 1
    ):
        return
    change_log.record(Topic.GPU_CAPACITY, gpu_id)
    take_from_held(Gpu.objects.filter(pk=gpu_id))
    emit(
        "gpu.admitted",
        path=gpu.path,
        object_id=gpu_id,
        project_id=pool.event_project,
        actor=actor,
        message=f"GPU {gpu.index} of {gpu.node.name} admitted to pool {pool.name}.",
    )
