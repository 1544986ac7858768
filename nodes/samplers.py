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
    Metric(
        "utilisation_percent",
        "utilisation",
        "percent",
        "Share of the last second in which a kernel ran.",
    ),
    Metric("memory_used_bytes", "memory_used", "bytes", "Memory in use by all processes."),
    Metric("temperature_celsius", "temperature", "celsius", "Of the GPU itself."),
    Metric("power_watts", "power", "watts", "Drawn now."),
    Metric(
        "memory_utilisation_percent",
        "memory_utilisation",
        "percent",
        "Share of the last second in which memory was read or written.",
    ),
    Metric(
        "encoder_utilisation_percent", "encoder_utilisation", "percent", "Of the video encoder."
    ),
    Metric(
        "decoder_utilisation_percent", "decoder_utilisation", "percent", "Of the video decoder."
    ),
    Metric("compute_clock_hertz", "compute_clock", "hertz", "Of the multiprocessors, now."),
    Metric("memory_clock_hertz", "memory_clock", "hertz", "Now."),
    Metric(
        "memory_temperature_celsius",
        "memory_temperature",
        "celsius",
        "Of the memory, where it is measured.",
    ),
    Metric("power_limit_watts", "power_limit", "watts", "In force now."),
    Metric("energy_joules", "energy", "joules", "Since the driver was loaded."),
    Metric("fan_percent", "fan", "percent", "Of the fastest fan's full speed."),
    Metric("pcie_received_bytes_per_second", "pcie_received", "bytes per second", "Over 20 ms."),
    Metric("pcie_sent_bytes_per_second", "pcie_sent", "bytes per second", "Over 20 ms."),
    Metric("performance_state", "performance_state", "state", "0 is the fastest, 15 the slowest."),
    Metric(
        "throttle_reasons", "throttle_reasons", "bits", "NVML's bits of what keeps the clock down."
    ),
    Metric("ecc_corrected_errors", "ecc_corrected", "errors", "Since the last reset."),
    Metric("ecc_uncorrected_errors", "ecc_uncorrected", "errors", "Since the last reset."),
    Metric("process_count", "processes", "processes", "That compute on it."),
)


def sample(nvml: Nvml, gpus: list[Gpu]) -> dict[uuid.UUID, dict[str, float]]:
    """Every metric that each GPU has."""
    out: dict[uuid.UUID, dict[str, float]] = {}
    for gpu in gpus:
        readings = {m.name: nvml.read(gpu.index, m.reading) for m in METRICS}
        out[gpu.uuid] = {name: value for name, value in readings.items() if value is not None}
    return out
