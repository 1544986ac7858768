"""Samples of nodes, which the gateway has checked: decoding, and recording in series."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from uuid import UUID

from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import fleet_pool
from appliance.inventory.reports import gpu_ids_by_uuid
from appliance.ipc import frames
from appliance.telemetry import charts, reachability
from nodes.protocol import fleet_pb2
from nodes.protocol.metrics import METRICS

log = logging.getLogger(__name__)

METRIC_NAMES = tuple(sorted(m.name for m in METRICS))
"""In the order in which agents send them."""

_gpu_ids: dict[UUID, dict[bytes, UUID]] = {}


def _forget_gpus(node_id: UUID) -> None:
    _gpu_ids.pop(node_id, None)


change_log.subscribe(lambda change: _forget_gpus(change.object_id), Topic.NODE_INVENTORY)


def store_samples(packed: bytes) -> bytes:
    """Store the samples of several nodes and record their heartbeats.

    Return one byte per node, 1 if its samples were stored. Runs on one thread; reads rows of new
    nodes.
    """
    return bytes(
        _store_node_samples(UUID(bytes=node), body) for node, body in frames.unpack_by_node(packed)
    )


def _store_node_samples(node_id: UUID, body: bytes) -> bool:
    reachability.record_heartbeat(node_id)
    if not body:
        return False
    try:
        samples = fleet_pb2.Samples.FromString(body)
        charts.record_gpu_samples(
            *_values_by_gpu(samples, _gpu_ids_of(node_id, [g.gpu_uuid for g in samples.gpus]))
        )
        return True
    except Exception as error:
        log.warning("samples: of node %s dropped: %s", node_id, error)
        return False


def _gpu_ids_of(node_id: UUID, wanted: Iterable[bytes]) -> dict[bytes, UUID]:
    """Map NVML UUIDs of the node's GPUs to ids."""
    ids = _gpu_ids.get(node_id)
    if ids is None or not ids.keys() >= set(wanted):
        read = fleet_pool.submit(gpu_ids_by_uuid, node_id).result()
        ids = _gpu_ids[node_id] = {uuid.bytes: pk for uuid, pk in read.items()}
    return ids


@lru_cache(1024)
def _columns(names: tuple[str, ...]) -> tuple[int | None, ...]:
    """Return the position of each known metric in `names`, or None if it is missing."""
    return tuple(names.index(m) if m in names else None for m in METRIC_NAMES)


def _values_by_gpu(
    samples: fleet_pb2.Samples, gpu_ids: Mapping[bytes, UUID]
) -> tuple[tuple[str, ...], dict[UUID, list[float]]]:
    """Return the known metrics and the values of each GPU of the node; NaN where one is missing.

    Other metrics are dropped. The database keeps each set of names for good, and a node could send
    another set with each sample.
    """
    names, found = tuple(samples.metrics), {}
    for gpu in samples.gpus:
        if (gpu_id := gpu_ids.get(gpu.gpu_uuid)) is not None:
            found[gpu_id] = known_values(names, list(gpu.values))
    return METRIC_NAMES, found


def known_values(names: tuple[str, ...], values: list[float]) -> list[float]:
    """Return the values in the order of METRIC_NAMES; NaN where one is missing or infinite."""
    if names != METRIC_NAMES:
        values = [math.nan if i is None else values[i] for i in _columns(names)]
    if math.isfinite(sum(values)):
        return values
    return [v if math.isfinite(v) else math.nan for v in values]
