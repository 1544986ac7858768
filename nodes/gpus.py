"""What NVML says; with `topology` the only module that speaks it. Unknown is None, never 0."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

from nodes.errors import NodeError
from nodes.optional import optional, text
from nodes.topology import links


@dataclass(frozen=True)
class Gpu:
    uuid: uuid.UUID
    index: int
    model: str
    memory_bytes: int
    compute_capability: str
    pci_bus_id: str = ""
    mig: bool = False
    """Cut into instances by its own firmware: nothing runs on it as a whole."""
    links: tuple[tuple[int, str], ...] = ()
    """Index of another GPU of the machine, and how it is reached (`topology`)."""


class Nvml:
    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NodeError(
                f"NVML does not start: {error}. Install NVIDIA's driver, or point LD_LIBRARY_PATH at the software GPU."
            ) from error

    def driver_version(self) -> str:
        return text(pynvml.nvmlSystemGetDriverVersion())

    def cuda_version(self) -> str:
        """The newest that the driver can do, such as 13.0; empty when it does not say."""
        version = optional(pynvml.nvmlSystemGetCudaDriverVersion_v2)  # 1000 a major, 10 a minor
        return "" if version is None else f"{version // 1000}.{version % 1000 // 10}"

    def software(self) -> bool:
        return self.driver_version() == "software"

    def _handles(self) -> list[Any]:
        return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]

    def gpus(self) -> list[Gpu]:
        found, handles = [], self._handles()
        for i, (h, reached) in enumerate(zip(handles, links(handles), strict=True)):
            major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(h)
            found.append(
                Gpu(
                    uuid=uuid.UUID(text(pynvml.nvmlDeviceGetUUID(h)).removeprefix("GPU-")),
                    index=i,
                    model=text(pynvml.nvmlDeviceGetName(h)),
                    memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(h).total),
                    compute_capability=f"{major}.{minor}",
                    pci_bus_id=optional(lambda h=h: text(pynvml.nvmlDeviceGetPciInfo(h).busId))
                    or "",  # type: ignore[misc]
                    mig=optional(
                        lambda h=h: (
                            pynvml.nvmlDeviceGetMigMode(h)[0] == pynvml.NVML_DEVICE_MIG_ENABLE
                        )
                    )
                    or False,  # type: ignore[misc]
                    links=tuple(sorted(reached.items())),
                )
            )
        return found

    def read(self, index: int, reading: str) -> float | None:
        """One reading of samplers.METRICS, or None when the GPU does not have it."""
        value = optional(lambda: READERS[reading](pynvml.nvmlDeviceGetHandleByIndex(index)))
        return None if value is None else float(value)


READERS: dict[str, Callable[[Any], float]] = {
    "utilisation": lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).gpu,
    "memory_used": lambda h: pynvml.nvmlDeviceGetMemoryInfo(h).used,
    "temperature": lambda h: pynvml.nvmlDeviceGetTemperature(h, pynvml.NVML_TEMPERATURE_GPU),
    "power": lambda h: pynvml.nvmlDeviceGetPowerUsage(h) / 1000,
    "memory_utilisation": lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).memory,
    "encoder_utilisation": lambda h: pynvml.nvmlDeviceGetEncoderUtilization(h)[0],
    "decoder_utilisation": lambda h: pynvml.nvmlDeviceGetDecoderUtilization(h)[0],
    "compute_clock": lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM) * 1e6,
    "memory_clock": lambda h: pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_MEM) * 1e6,
    "memory_temperature": lambda h: (
        pynvml.nvmlDeviceGetFieldValues(h, [pynvml.NVML_FI_DEV_MEMORY_TEMP])[0].value.uiVal
        or no_reading()
    ),
    "power_limit": lambda h: pynvml.nvmlDeviceGetEnforcedPowerLimit(h) / 1000,
    "energy": lambda h: pynvml.nvmlDeviceGetTotalEnergyConsumption(h) / 1000,
    "fan": lambda h: pynvml.nvmlDeviceGetFanSpeed(h),
    "pcie_received": lambda h: (
        pynvml.nvmlDeviceGetPcieThroughput(h, pynvml.NVML_PCIE_UTIL_RX_BYTES) * 1024
    ),
    "pcie_sent": lambda h: (
        pynvml.nvmlDeviceGetPcieThroughput(h, pynvml.NVML_PCIE_UTIL_TX_BYTES) * 1024
    ),
    "performance_state": lambda h: pynvml.nvmlDeviceGetPerformanceState(h),
    "throttle_reasons": lambda h: pynvml.nvmlDeviceGetCurrentClocksEventReasons(h),
    "ecc_corrected": lambda h: pynvml.nvmlDeviceGetTotalEccErrors(
        h, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC
    ),
    "ecc_uncorrected": lambda h: pynvml.nvmlDeviceGetTotalEccErrors(
        h, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    ),
    "processes": lambda h: len(pynvml.nvmlDeviceGetComputeRunningProcesses(h)),
}
"""Of a device's handle. Each may raise NVMLError: then this GPU does not have it."""


def no_reading() -> float:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
