"""Load the free capacity of GPUs from the database."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from appliance.allocations.placement import GpuCapacity
from appliance.allocations.queries import MAX_PREPARED_IDS
from appliance.db.prepared import Select
from appliance.inventory.models import Gpu, GpuQuerySet, NodeState
from appliance.pools.isolation import LAYERS, IsolationLevel, describe, satisfies
from appliance.runtime.each import convert_each
from appliance.telemetry import reachability

SITE_LABEL = "site"
VERSION = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")


def parse_version(text: str) -> tuple[int, ...]:
    """Convert "580.95.05" to (580, 95, 5). Other text gives (), which is older than any version.

    The text comes from a node, and the scheduler reads it: it must not raise an error.
    """
    return tuple(map(int, text.split("."))) if VERSION.fullmatch(text) else ()


class GpuRow(NamedTuple):
    """Columns of a GPU that placement needs; the fields are Django lookups."""

    pool_id: UUID
    pk: UUID
    node_id: UUID
    index: int  # type: ignore[assignment]  # hides tuple.index
    memory_bytes: int
    context_bytes: int
    taken_percent: int
    taken_memory_bytes: int
    model: str
    mig: bool
    present: bool
    labels: dict[str, str]
    node__name: str
    node__state: str
    node__locked_at: datetime | None
    node__labels: dict[str, str]
    node__driver_version: str
    node__cuda_version: str
    node__site__name: str | None
    node__isolation: str
    node__missing_layers: list[str]
    pool__required_isolation: str


def pooled_gpus() -> GpuQuerySet:
    """Return the GPUs of pools, each once if several nodes report it."""
    rows = Gpu.objects.filter(pool_id__isnull=False, duplicate_of__isnull=True)
    return rows.exclude(node__state=NodeState.REMOVED)


SELECT_GPUS = Select(
    lambda gpu_ids: pooled_gpus().filter(pk__in=gpu_ids).values_list(*GpuRow._fields)
)


def load_gpus(
    *, gpu_ids: Iterable[UUID] | None = None, node_ids: Iterable[UUID] | None = None
) -> list[tuple[UUID, str, GpuCapacity]]:
    """Return pool id, node name and capacity of the given GPUs, or of all GPUs in pools.

    One that cannot be read is logged and unusable: without it, a reservation that needs it would
    be impossible and keep nothing. A partition counts as taken until its node has reported its
    release. Reachability is not considered, see `apply_reachability`.
    """
    rows: Iterable[Sequence[Any]]
    if gpu_ids is not None and len(ids := list(gpu_ids)) <= MAX_PREPARED_IDS:
        rows = SELECT_GPUS.rows(gpu_ids=ids) if ids else ()
    else:
        gpus = pooled_gpus()
        if gpu_ids is not None:
            gpus = gpus.filter(pk__in=ids)
        if node_ids is not None:
            gpus = gpus.filter(node_id__in=list(node_ids))
        rows = gpus.values_list(*GpuRow._fields)
    found, failed = convert_each(
        "scheduler: reading of GPU",
        [GpuRow(*columns) for columns in rows],
        lambda row: (row.pool_id, row.node__name, gpu_capacity(row)),
        lambda row: row.pk,
    )
    return found + [(row.pool_id, row.node__name, unreadable_gpu(row)) for row in failed]


def gpu_capacity(row: GpuRow) -> GpuCapacity:
    reason = unusable_reason(row)
    return GpuCapacity(
        row.pk,
        row.node_id,
        row.memory_bytes,
        100 - row.taken_percent,
        row.memory_bytes - row.taken_memory_bytes,
        not reason,
        reason,
        row.model,
        labels_of(row),
        parse_version(row.node__driver_version),
        parse_version(row.node__cuda_version) if row.node__cuda_version else (),
        row.context_bytes,
    )


def unreadable_gpu(row: GpuRow) -> GpuCapacity:
    """Return a GPU on which nothing can be placed. Any column but the ids may be damaged."""
    memory_bytes = row.memory_bytes if isinstance(row.memory_bytes, int) else 0
    reason = f"GPU {row.index} of {row.node__name} cannot be read; see the log of the appliance"
    return GpuCapacity(row.pk, row.node_id, memory_bytes, 0, 0, False, reason, str(row.model))


def labels_of(row: GpuRow) -> dict[str, str]:
    """Return the labels by which requests select the GPU.

    The label `site` is the site: a label of this name on the node or GPU would let their operators
    take requests for another site.
    """
    labels: dict[str, str] = row.node__labels | row.labels
    labels.pop(SITE_LABEL, None)
    return labels | {SITE_LABEL: row.node__site__name} if row.node__site__name else labels


def unusable_reason(row: GpuRow) -> str:
    """Return why nothing can be placed on the GPU, or an empty string."""
    if not row.present:
        return f"GPU {row.index} of {row.node__name} is missing"
    if row.node__state != NodeState.READY:
        return f"node {row.node__name} is {row.node__state}"
    if row.node__locked_at is not None:
        return f"node {row.node__name} is locked"
    if row.mig:
        return f"GPU {row.index} of {row.node__name} is in MIG mode"
    if not satisfies(row.node__isolation, row.pool__required_isolation):
        return weak_isolation(row)
    return ""


def weak_isolation(row: GpuRow) -> str:
    required = row.pool__required_isolation
    missing = LAYERS[IsolationLevel(required)].intersection(row.node__missing_layers)
    return (
        f"node {row.node__name} has isolation {row.node__isolation}, and the pool requires "
        f"{required}"
    ) + (f"; not in force: {describe(missing)}" if missing else "")


def apply_reachability(gpu: GpuCapacity, node: str, unreachable: Collection[UUID]) -> GpuCapacity:
    """Return the capacity, unusable if its node is unreachable. The database has no such column."""
    if gpu.usable and gpu.node_id in unreachable:
        return replace(gpu, usable=False, unusable_reason=f"node {node} is unreachable")
    return gpu


def load_pool_gpus() -> dict[UUID, list[GpuCapacity]]:
    """Return the GPUs of each pool."""
    rows = load_gpus()
    unreachable = reachability.unreachable({gpu.node_id for _, _, gpu in rows})
    found: dict[UUID, list[GpuCapacity]] = {}
    for pool_id, node, gpu in rows:
        found.setdefault(pool_id, []).append(apply_reachability(gpu, node, unreachable))
    return found
