"""GPUs of this machine as NVML reports them. An unsupported value is None, never 0."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml

from nodes.errors import NodeError
from nodes.nvml import decode_text, pci_bus_id, read_optional
from nodes.topology import read_links
from nodes.xid import XidWatch

SOFTWARE_NAME = "Software GPU"


@dataclass(frozen=True)
class Gpu:
    uuid: uuid.UUID
    index: int
    model: str
    memory_bytes: int
    compute_capability: str
    pci_bus_id: str = ""
    mig: bool = False
    """Whether MIG divides the GPU into instances. Nothing runs on the whole GPU then."""
    links: tuple[tuple[int, str], ...] = ()
    """Index of another GPU of the machine, and the link to it (see `topology`)."""


class Nvml:
    """An initialised NVML library."""

    def __init__(self) -> None:
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise NodeError(
                f"NVML initialisation failed: {error}. Install NVIDIA's driver,"
                " or add the software GPU to LD_LIBRARY_PATH."
            ) from error

    def driver_version(self) -> str:
        return decode_text(pynvml.nvmlSystemGetDriverVersion())

    def cuda_version(self) -> str:
        """Return the newest CUDA version of the driver, such as 13.0; empty if unknown."""
        version = read_optional(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        if version is None:
            return ""
        major, minor = version // 1000, version % 1000 // 10
        return f"{major}.{minor}"

    def software(self) -> bool:
        """Return whether the driver is the software GPU."""
        names = [decode_text(pynvml.nvmlDeviceGetName(handle)) for handle in self._handles()]
        return bool(names) and set(names) == {SOFTWARE_NAME}

    def _handles(self) -> list[Any]:
        return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]

    def gpus(self) -> list[Gpu]:
        """Return all GPUs in NVML's order. Raises NVMLError if a required value is missing."""
        handles = self._handles()
        return [
            read_gpu(i, handle, links)
            for i, (handle, links) in enumerate(zip(handles, read_links(handles), strict=True))
        ]

    def process_memory(self, gpus: Sequence[Gpu]) -> dict[uuid.UUID, dict[int, int]]:
        """Return the memory of each process on each GPU, where NVML supports it."""
        return {
            g.uuid: read_optional(
                lambda i: read_process_memory(pynvml.nvmlDeviceGetHandleByIndex(i)), g.index
            )
            or {}
            for g in gpus
        }

    def read(self, index: int, reader: str) -> float | None:
        """Return one value of a GPU by the name of its reader, or None if it is unsupported."""
        value = read_optional(lambda: READERS[reader](pynvml.nvmlDeviceGetHandleByIndex(index)))
        return None if value is None else float(value)


def read_gpu(index: int, handle: Any, links: dict[int, str]) -> Gpu:
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    return Gpu(
        uuid=uuid.UUID(decode_text(pynvml.nvmlDeviceGetUUID(handle)).removeprefix("GPU-")),
        index=index,
        model=decode_text(pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        compute_capability=f"{major}.{minor}",
        pci_bus_id=read_optional(pci_bus_id, handle) or "",
        mig=read_optional(mig_enabled, handle) or False,
        links=tuple(sorted(links.items())),
    )


def read_process_memory(handle: Any) -> dict[int, int]:
    """Return the bytes that NVML shows for each process; those without a value are left out."""
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return {p.pid: int(p.usedGpuMemory) for p in processes if p.usedGpuMemory is not None}


def mig_enabled(handle: Any) -> bool:
    return bool(pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE)


def memory_temperature(handle: Any) -> float:
    """Return the temperature of the memory. NVML reports 0 where it is not measured."""
    fields = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_MEMORY_TEMP])
    value = float(fields[0].value.uiVal)
    if not value:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return value


# Functions of a device handle. Each raises NVMLError if the GPU does not support the value.
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
    "memory_temperature": memory_temperature,
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
    "xid": XidWatch().read,
    "processes": lambda h: len(pynvml.nvmlDeviceGetComputeRunningProcesses(h)),
}
