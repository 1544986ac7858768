"""Readings of the GPUs of this program's allocation, through NVML."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

from remoting.cli.api import ApiError
from remoting.cli.run_command import client_library_folder

NO_GPU = (
    "This process has no GPU. Run it on one with: busbar run -p 10 -- busbar smi\n"
    "The GPUs of the pool are listed by: busbar gpu list"
)


@dataclass(frozen=True)
class Process:
    pid: int
    name: str
    memory_bytes: int | None


@dataclass(frozen=True)
class Gpu:
    """Values of one GPU as its partition shows them; None for what the GPU does not report."""

    index: int
    name: str
    uuid: str
    bus_id: str
    performance_state: int | None
    persistence_mode: bool | None
    fan_percent: int | None
    temperature_celsius: int | None
    power_milliwatts: int | None
    power_limit_milliwatts: int | None
    memory_total_bytes: int
    memory_used_bytes: int
    gpu_percent: int | None
    memory_percent: int | None
    processes: tuple[Process, ...]


@dataclass(frozen=True)
class Readings:
    driver_version: str
    cuda_version: str
    gpus: tuple[Gpu, ...]


def value_of(read: Callable[..., Any], *arguments: Any) -> Any:
    """Return what an NVML function returns, or None if the GPU does not report it."""
    try:
        return read(*arguments)
    except pynvml.NVMLError:
        return None


def program_name(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return "-"


def processes_of(handle: Any) -> tuple[Process, ...]:
    """Return the other programs on a GPU: this one has a session to read it.

    Programs in containers may have the same process number. Their sessions have more memory.
    """
    found = value_of(pynvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
    same = (p for p in found if p.pid == os.getpid())
    own = min(same, key=lambda p: p.usedGpuMemory or 0, default=None)
    others = (p for p in found if p is not own)
    return tuple(Process(p.pid, program_name(p.pid), p.usedGpuMemory) for p in others)


def read_gpu(index: int) -> Gpu:
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    use = value_of(pynvml.nvmlDeviceGetUtilizationRates, handle)
    pci = value_of(pynvml.nvmlDeviceGetPciInfo, handle)
    persistence = value_of(pynvml.nvmlDeviceGetPersistenceMode, handle)
    return Gpu(
        index=index,
        name=pynvml.nvmlDeviceGetName(handle),
        uuid=pynvml.nvmlDeviceGetUUID(handle),
        bus_id=pci.busId if pci else "-",
        performance_state=value_of(pynvml.nvmlDeviceGetPerformanceState, handle),
        persistence_mode=None if persistence is None else bool(persistence),
        fan_percent=value_of(pynvml.nvmlDeviceGetFanSpeed, handle),
        temperature_celsius=value_of(
            pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU
        ),
        power_milliwatts=value_of(pynvml.nvmlDeviceGetPowerUsage, handle),
        power_limit_milliwatts=value_of(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle),
        memory_total_bytes=memory.total,
        memory_used_bytes=memory.used,
        gpu_percent=use.gpu if use else None,
        memory_percent=use.memory if use else None,
        processes=processes_of(handle),
    )


def load_library() -> None:
    """Load the NVML of the allocation, also if LD_LIBRARY_PATH no longer names its folder.

    A library that is loaded already answers for its name. Raises ApiError outside of an
    allocation.
    """
    library = client_library_folder() / "libnvidia-ml.so.1"
    if not os.environ.get("BUSBAR_TICKET_FILE") or not library.exists():
        raise ApiError(NO_GPU)
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def read_all() -> Readings:
    """Read all GPUs. Raises ApiError if there is none or if the session cannot be opened."""
    load_library()
    try:
        pynvml.nvmlInit()
        cuda = value_of(pynvml.nvmlSystemGetCudaDriverVersion) or 0
        return Readings(
            driver_version=value_of(pynvml.nvmlSystemGetDriverVersion) or "N/A",
            cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}",
            gpus=tuple(map(read_gpu, range(pynvml.nvmlDeviceGetCount()))),
        )
    except pynvml.NVMLError as error:
        raise ApiError(f"The GPUs cannot be read: {error}") from None
