"""Metrics as data: exporter, API and console read this list."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from nodes.gpus import Gpu, Nvml


@dataclass(frozen=True)
class Metric:
    name: str
    reading: str
    unit: str
    help: str


METRICS = (
    Metric("utilisation_percent", "utilisation", "percent", "Share of the last second in which a kernel ran."),
    Metric("memory_used_bytes", "memory_used", "bytes", "Memory in use by all processes."),
    Metric("temperature_celsius", "temperature", "celsius", "Of the GPU itself."),
    Metric("power_watts", "power", "watts", "Drawn now."),
)


def sample(nvml: Nvml, gpus: list[Gpu]) -> dict[uuid.UUID, dict[str, float]]:
    """Every metric that each GPU has."""
    out: dict[uuid.UUID, dict[str, float]] = {}
    for gpu in gpus:
        readings = {m.name: nvml.read(gpu.index, m.reading) for m in METRICS}
        out[gpu.uuid] = {name: value for name, value in readings.items() if value is not None}
    return out
