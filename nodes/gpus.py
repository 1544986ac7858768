"""The only module that speaks NVML. Unknown is None, never 0."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pynvml

from nodes.errors import NodeError

R = TypeVar("R")


@dataclass(frozen=True)
class Gpu:
    uuid: uuid.UUID
    index: int
    model: str
    memory_bytes: int
    compute_capability: str


def optional(read: Callable[[], R]) -> R | None:
    """A reading that this GPU may not have."""
    try:
        return read()
    except pynvml.NVMLError:
        return None


def text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


class Nvml:
    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NodeError(f"NVML does not start: {error}. Install NVIDIA's driver, or point LD_LIBRARY_PATH at the software GPU.") from error

    def driver_version(self) -> str:
        return text(pynvml.nvmlSystemGetDriverVersion())

    def software(self) -> bool:
        return self.driver_version() == "software"

    def _handles(self) -> list[Any]:
        return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]

    def gpus(self) -> list[Gpu]:
        found = []
        for i, h in enumerate(self._handles()):
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(h)
            found.append(
                Gpu(
                    uuid=uuid.UUID(text(pynvml.nvmlDeviceGetUUID(h)).removeprefix("GPU-")),
                    index=i,
                    model=text(pynvml.nvmlDeviceGetName(h)),
                    memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(h).total),
                    compute_capability=f"{major}.{minor}",
                )
            )
        return found

    def read(self, index: int, reading: str) -> float | None:
        """One reading of samplers.METRICS, or None when the GPU does not have it."""
        h = pynvml.nvmlDeviceGetHandleByIndex(index)
        readers: dict[str, Callable[[], float]] = {
            "utilisation": lambda: pynvml.nvmlDeviceGetUtilizationRates(h).gpu,
            "memory_used": lambda: pynvml.nvmlDeviceGetMemoryInfo(h).used,
            "temperature": lambda: pynvml.nvmlDeviceGetTemperature(h, pynvml.NVML_TEMPERATURE_GPU),
            "power": lambda: pynvml.nvmlDeviceGetPowerUsage(h) / 1000,
        }
        value = optional(readers[reading])
        return None if value is None else float(value)
