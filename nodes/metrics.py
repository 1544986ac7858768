"""Reads the metrics of GPUs."""

from __future__ import annotations

import uuid

from nodes.gpus import Gpu, Nvml
from nodes.protocol.metrics import METRICS


def read_metrics(nvml: Nvml, gpus: list[Gpu]) -> dict[uuid.UUID, dict[str, float]]:
    """Return the metrics that each GPU supports. Blocks for the NVML calls."""
    out: dict[uuid.UUID, dict[str, float]] = {}
    for gpu in gpus:
        values = {m.name: nvml.read(gpu.index, m.reader) for m in METRICS}
        out[gpu.uuid] = {name: value for name, value in values.items() if value is not None}
    return out
