"""Metrics of a GPU: names, units and readers. The exporter, the API and the console use them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    name: str
    reader: str
    """Key of `gpus.READERS`."""
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
    Metric("temperature_celsius", "temperature", "celsius", "Temperature of the GPU."),
    Metric("power_watts", "power", "watts", "Current power draw."),
    Metric(
        "memory_utilisation_percent",
        "memory_utilisation",
        "percent",
        "Share of the last second in which memory was read or written.",
    ),
    Metric(
        "encoder_utilisation_percent",
        "encoder_utilisation",
        "percent",
        "Utilisation of the video encoder.",
    ),
    Metric(
        "decoder_utilisation_percent",
        "decoder_utilisation",
        "percent",
        "Utilisation of the video decoder.",
    ),
    Metric(
        "compute_clock_hertz", "compute_clock", "hertz", "Current clock of the multiprocessors."
    ),
    Metric("memory_clock_hertz", "memory_clock", "hertz", "Current clock of the memory."),
    Metric(
        "memory_temperature_celsius",
        "memory_temperature",
        "celsius",
        "Temperature of the memory, where it is measured.",
    ),
    Metric("power_limit_watts", "power_limit", "watts", "Enforced power limit."),
    Metric("energy_joules", "energy", "joules", "Energy used since the driver was loaded."),
    Metric("fan_percent", "fan", "percent", "Speed of the fastest fan."),
    Metric(
        "pcie_received_bytes_per_second",
        "pcie_received",
        "bytes per second",
        "PCIe receive rate over 20 ms.",
    ),
    Metric(
        "pcie_sent_bytes_per_second",
        "pcie_sent",
        "bytes per second",
        "PCIe send rate over 20 ms.",
    ),
    Metric(
        "performance_state",
        "performance_state",
        "state",
        "Performance state: 0 is the fastest, 15 the slowest.",
    ),
    Metric(
        "throttle_reasons",
        "throttle_reasons",
        "bits",
        "NVML's bit mask of reasons that reduce the clock.",
    ),
    Metric(
        "ecc_corrected_errors",
        "ecc_corrected",
        "errors",
        "Corrected memory errors since the last reset.",
    ),
    Metric(
        "ecc_uncorrected_errors",
        "ecc_uncorrected",
        "errors",
        "Uncorrected memory errors since the last reset.",
    ),
    Metric(
        "xid",
        "xid",
        "code",
        "Code of the last XID error of the past ten minutes; 0 if there was none.",
    ),
    Metric("process_count", "processes", "processes", "Number of compute processes."),
)
