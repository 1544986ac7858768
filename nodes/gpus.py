"""GPUs of this machine as NVML reports them. An unsupported value is None, never 0."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Any, TypeVar

import pynvml

from nodes.errors import NodeError
from nodes.nvml import decode_text, pci_bus_id, read_optional
from nodes.topology import read_links
from nodes.xid import XidWatch

log = logging.getLogger("agent")

SOFTWARE_NAME = "Software GPU"
USE_PERIOD = 1_000_000
"""Microseconds. NVML measures over a sixth of a second to a second."""
R = TypeVar("R")


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
        self._models: set[str] = set()
        self._failures: dict[str, str] = {}
        """Errors of the last attempt to read each value, by its name."""

    def driver_version(self) -> str:
        """Return the version of the driver; empty if it cannot be read."""
        return decode_text(read_optional(pynvml.nvmlSystemGetDriverVersion) or "")

    def cuda_version(self) -> str:
        """Return the newest CUDA version of the driver, such as 13.0; empty if unknown."""
        version = read_optional(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        if version is None:
            return ""
        major, minor = version // 1000, version % 1000 // 10
        return f"{major}.{minor}"

    def software(self) -> bool:
        """Return whether all GPUs that `gpus` has ever returned are software GPUs."""
        return self._models == {SOFTWARE_NAME}

    def gpus(self) -> list[Gpu]:
        """Return the GPUs in NVML's order. One that cannot be read, as a lost one, is left out.

        The appliance shows a GPU that is not reported as missing.
        """
        count = self._attempt("the number of GPUs", pynvml.nvmlDeviceGetCount) or 0
        found = [r for i in range(count) if (r := self._attempt(f"GPU {i}", read_gpu, i))]
        links = read_links({gpu.index: handle for handle, gpu in found})
        self._models.update(gpu.model for _, gpu in found)
        return [replace(gpu, links=tuple(sorted(links[gpu.index].items()))) for _, gpu in found]

    def _attempt(self, name: str, read: Callable[..., R], *arguments: Any) -> R | None:
        """Return `read(*arguments)`, or None if it fails. The same failure is logged once."""
        try:
            result = read(*arguments)
        except (pynvml.NVMLError, ValueError) as error:
            if self._failures.get(name) != str(error):
                log.warning("agent: NVML cannot read %s, will retry (%s)", name, error)
            self._failures[name] = str(error)
            return None
        self._failures.pop(name, None)
        return result

    def process_memory(self, gpus: Sequence[Gpu]) -> dict[uuid.UUID, dict[int, int]]:
        """Return the memory of each process on each GPU, where NVML supports it."""
        return {
            g.uuid: read_optional(
                lambda i: read_process_memory(pynvml.nvmlDeviceGetHandleByIndex(i)), g.index
            )
            or {}
            for g in gpus
        }

    def process_use(self, gpus: Sequence[Gpu]) -> dict[uuid.UUID, dict[int, float]]:
        """Return in what percent of the last second work of each process ran.

        A process without work has no value, and a GPU that does not support it, as with MIG, none.
        """
        use = {g.uuid: self._attempt(f"use of GPU {g.index}", read_process_use, g) for g in gpus}
        return {gpu: of_processes for gpu, of_processes in use.items() if of_processes is not None}

    def read(self, index: int, reader: str) -> float | None:
        """Return one value of a GPU by the name of its reader, or None if it is unsupported."""
        value = read_optional(lambda: READERS[reader](pynvml.nvmlDeviceGetHandleByIndex(index)))
        return None if value is None else float(value)


def read_gpu(index: int) -> tuple[Any, Gpu]:
    """Return handle and values of a GPU, without links.

    Raises NVMLError or ValueError if a required value is missing.
    """
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)
    memory_bytes = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    if not memory_bytes:  # the appliance would refuse the inventory with all GPUs
        raise ValueError("it has no memory")
    return handle, Gpu(
        uuid=uuid.UUID(decode_text(pynvml.nvmlDeviceGetUUID(handle)).removeprefix("GPU-")),
        index=index,
        model=decode_text(pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=memory_bytes,
        compute_capability=f"{major}.{minor}",
        pci_bus_id=read_optional(pci_bus_id, handle) or "",
        mig=read_optional(mig_enabled, handle) or False,
    )


def read_process_memory(handle: Any) -> dict[int, int]:
    """Return the bytes that NVML shows for each process; those without a value are left out."""
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return {p.pid: int(p.usedGpuMemory) for p in processes if p.usedGpuMemory is not None}


def read_process_use(gpu: Gpu) -> dict[int, float]:
    """Return the percent of the last second in which work of each process ran.

    Drivers keep old samples, and entries without a meaning behind those of the processes.
    """
    since = time.time_ns() // 1000 - USE_PERIOD
    try:
        samples = pynvml.nvmlDeviceGetProcessUtilization(
            pynvml.nvmlDeviceGetHandleByIndex(gpu.index), since
        )
    except pynvml.NVMLError as error:
        if error.value in (pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND):
            return {}
        raise
    now = time.time_ns() // 1000
    use: dict[int, list[int]] = {}
    for s in samples:
        if since < s.timeStamp <= now and s.smUtil <= 100:
            use.setdefault(s.pid, []).append(s.smUtil)
    return {pid: mean(of_process) for pid, of_process in use.items()}


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
