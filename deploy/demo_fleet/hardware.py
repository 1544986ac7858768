"""Models of GPUs of simulated nodes, and what their sensors show under a load."""

from __future__ import annotations

import math
import random
import uuid
from dataclasses import dataclass

from nodes.protocol import fleet_pb2

GPUS_PER_NODE = 8
NAMESPACE = uuid.UUID("5e0d7c4a-3c53-4a54-8a8c-6f1d6f0e2b11")
AMBIENT_CELSIUS, MEMORY_ABOVE_CELSIUS = 31.0, 9.0
FULL_LOAD_CELSIUS = 44.0
"""Above the ambient temperature."""
IDLE_HERTZ = 345e6
THERMAL_SECONDS = 45.0
"""A GPU reaches two thirds of a change of its temperature in this time."""
CONTEXT_BYTES = 450 << 20
"""Memory in use without a program."""
SOFTWARE_THERMAL_LIMIT, IDLE_CLOCKS = 0x20, 0x1
"""Bits of NVML's reasons for reduced clocks."""


@dataclass(frozen=True)
class Model:
    name: str
    memory_bytes: int
    compute_capability: str
    power_limit_watts: float
    idle_watts: float
    compute_hertz: float
    memory_hertz: float
    has_fan: bool = False


MODELS = (
    Model("NVIDIA H200", 141 << 30, "9.0", 700, 78, 1.98e9, 3.2e9),
    Model("NVIDIA H100 80GB HBM3", 80 << 30, "9.0", 700, 71, 1.98e9, 2.62e9),
    Model("NVIDIA A100-SXM4-80GB", 80 << 30, "8.0", 400, 56, 1.41e9, 1.59e9),
    Model("NVIDIA L40S", 48 << 30, "8.9", 350, 33, 2.52e9, 2.25e9, has_fan=True),
)


def model_of(node_index: int) -> Model:
    """Return the model of all GPUs of a node; half of the nodes have one of the first two."""
    return MODELS[(0, 1, 2, 1, 3)[node_index % 5]]


@dataclass(frozen=True)
class Fault:
    """Errors and heat of a GPU with a fault."""

    least_celsius: float = 0.0
    """A broken fan: the GPU is not cooler than this."""
    corrected_errors: int = 0
    uncorrected_errors: int = 0
    xid: int = 0


class SimulatedGpu:
    """The sensors of one GPU. Not thread-safe."""

    def __init__(self, node_name: str, index: int, model: Model) -> None:
        self.uuid = uuid.uuid5(NAMESPACE, f"{node_name}/{index}")
        self.index, self.model = index, model
        self._random = random.Random(self.uuid.int)
        self._celsius = AMBIENT_CELSIUS
        self._joules = 0.0
        self._at = 0.0

    def message(self) -> fleet_pb2.Gpu:
        on_switch = model_has_switch(self.model)
        others = (i for i in range(GPUS_PER_NODE) if i != self.index)
        return fleet_pb2.Gpu(
            uuid=self.uuid.bytes,
            index=self.index,
            model=self.model.name,
            memory_bytes=self.model.memory_bytes,
            compute_capability=self.model.compute_capability,
            pci_bus_id=f"00000000:{0x10 * (self.index + 1):02X}:00.0",
            links={i: "NV18" if on_switch else self._link(i) for i in others},
        )

    def _link(self, other: int) -> str:
        half = GPUS_PER_NODE // 2
        return "NODE" if self.index // half == other // half else "SYS"

    def read(
        self, now: float, busy: float, used_bytes: int, programs: int, fault: Fault
    ) -> dict[str, float]:
        """Return the value of each metric. `busy` is between 0 and 1."""
        busy = min(max(busy * self._random.uniform(0.94, 1.04), 0.0), 1.0)
        self._warm(now, busy, fault.least_celsius)
        model = self.model
        watts = model.idle_watts + (model.power_limit_watts - model.idle_watts) * busy**0.85
        self._joules += watts * min(max(now - self._at, 0.0), 60.0)
        self._at = now
        limited = self._celsius > 88
        hertz = model.compute_hertz * (0.72 if limited else 1.0) if programs else IDLE_HERTZ
        return {
            "utilisation_percent": round(100 * busy),
            "memory_used_bytes": float(CONTEXT_BYTES + used_bytes),
            "temperature_celsius": round(self._celsius),
            "memory_temperature_celsius": round(self._celsius + MEMORY_ABOVE_CELSIUS * busy),
            "power_watts": round(watts, 1),
            "power_limit_watts": model.power_limit_watts,
            "energy_joules": round(self._joules),
            "memory_utilisation_percent": round(61 * busy),
            "encoder_utilisation_percent": 0.0,
            "decoder_utilisation_percent": 0.0,
            "compute_clock_hertz": hertz,
            "memory_clock_hertz": model.memory_hertz,
            "fan_percent": round(30 + 60 * busy) if model.has_fan else math.nan,
            "pcie_received_bytes_per_second": round(2.1e9 * busy * self._random.random()),
            "pcie_sent_bytes_per_second": round(0.8e9 * busy * self._random.random()),
            "performance_state": 0.0 if programs else 8.0,
            "throttle_reasons": float(
                SOFTWARE_THERMAL_LIMIT if limited else 0 if programs else IDLE_CLOCKS
            ),
            "ecc_corrected_errors": float(fault.corrected_errors),
            "ecc_uncorrected_errors": float(fault.uncorrected_errors),
            "xid": float(fault.xid),
            "process_count": float(programs),
        }

    def _warm(self, now: float, busy: float, least_celsius: float) -> None:
        """Move the temperature towards that of the load."""
        target = max(AMBIENT_CELSIUS + FULL_LOAD_CELSIUS * busy, least_celsius)
        seconds = now - self._at if self._at else math.inf
        self._celsius += (target - self._celsius) * (1 - math.exp(-seconds / THERMAL_SECONDS))


def model_has_switch(model: Model) -> bool:
    """Return whether NVSwitch connects all GPUs of a node."""
    return not model.has_fan
