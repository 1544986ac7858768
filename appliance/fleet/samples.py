"""Samples of nodes: decoded, and given to the series and the browsers that watch."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from uuid import UUID

from appliance import pipe
from appliance.inventory import services as inventory
from appliance.telemetry import charts, latest
from appliance.told import in_web
from appliance.writer import fleet_readers
from nodes.protocol import fleet_pb2

log = logging.getLogger(__name__)

MAX_METRICS, MAX_NAME = 64, 64

_gpu_ids: dict[UUID, dict[bytes, UUID]] = {}


@in_web
def forget_gpus(node_id: UUID) -> None:
    """Its inventory is another."""
    _gpu_ids.pop(node_id, None)


def take(news: bytes) -> bytes:
    """Of several nodes, each of which was heard, and may say what it measured. A byte each: 1 when that was kept. On one thread; reads rows of new nodes."""
    return bytes(kept(UUID(bytes=node), body) for node, body in pipe.parts(news))


def kept(node_id: UUID, body: bytes) -> bool:
    latest.heard_from(node_id)
    if not body:
        return False
    try:
        samples = fleet_pb2.Samples.FromString(body)
        charts.record_gpus(*readings(samples, gpus_of(node_id, [g.gpu_uuid for g in samples.gpus])))
        return True
    except Exception as error:
        log.warning("node %s: samples dropped: %s", node_id, error)
        return False


def gpus_of(node_id: UUID, wanted: Iterable[bytes]) -> dict[bytes, UUID]:
    """NVML's UUID to our id."""
    known = _gpu_ids.get(node_id)
    if known is None or not known.keys() >= set(wanted):
        read = fleet_readers.submit(inventory.gpu_ids, node_id).result()
        known = _gpu_ids[node_id] = {uuid.bytes: pk for uuid, pk in read.items()}
    return known


@lru_cache(1024)
def names(given: tuple[str, ...]) -> tuple[str, ...]:
    """The one tuple of these names. Raises ValueError when a GPU can hardly have them."""
    if (
        len(given) > MAX_METRICS
        or len(set(given)) != len(given)
        or any(not 0 < len(name) <= MAX_NAME for name in given)
    ):
        raise ValueError(f"{len(given)} metrics, or a name that is none")
    return given


def readings(
    samples: fleet_pb2.Samples, gpu_ids: Mapping[bytes, UUID]
) -> tuple[tuple[str, ...], dict[UUID, list[float]]]:
    """Metrics, and the values of each GPU that is the node's; NaN where there is none."""
    metrics, found = names(tuple(samples.metrics)), {}
    for gpu in samples.gpus:
        if (gpu_id := gpu_ids.get(gpu.gpu_uuid)) is not None and len(gpu.values) == len(metrics):
            values = list(gpu.values)
            found[gpu_id] = (
                values
                if math.isfinite(sum(values))
                else [v if math.isfinite(v) else math.nan for v in values]
            )
    return metrics, found
