"""Memory that an empty CUDA context takes on a GPU, measured with NVML.

Each session has one context on each GPU that it uses, and the launcher charges it (ADR 67). A
process of its own measures it, so that the agent holds no context. Run as a program it prints the
bytes.
"""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import uuid
from collections.abc import Sequence

import pynvml

from nodes.driver_process import ask_driver
from nodes.gpus import SOFTWARE_NAME, Gpu, read_process_memory

log = logging.getLogger("agent")

UNMEASURED_CONTEXT_BYTES = 1 << 30
"""Assumed where the memory could not be measured: more than a context takes."""
MAX_DIFFERENCE_BYTES = 4 << 30
MAX_DIFFERENCE_PERCENT = 25
"""Of the memory of the GPU. What exceeds either is no context: another process took memory."""


def measure_contexts(gpus: Sequence[Gpu]) -> dict[uuid.UUID, int]:
    """Return the bytes of a context by GPU, measured on the first GPU of each model that works."""
    of_model: dict[str, int] = {}
    for gpu in gpus:
        if gpu.model not in of_model and (measured := measure_context(gpu)) is not None:
            of_model[gpu.model] = measured
    return {gpu.uuid: of_model.get(gpu.model, assumed_bytes(gpu)) for gpu in gpus}


def assumed_bytes(gpu: Gpu) -> int:
    return 0 if gpu.model == SOFTWARE_NAME else UNMEASURED_CONTEXT_BYTES


def measure_context(gpu: Gpu) -> int | None:
    """Return the bytes of a context on the GPU, or None if another GPU may be tried.

    Blocks for up to 60 s. A driver that does not answer in time does not answer for another GPU
    either, and the node is silent meanwhile: then the assumed bytes are returned.
    """
    try:
        return ask_driver("nodes.context_memory", gpu.pci_bus_id, str(gpu.index))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning(
            "agent: context memory not measured, %d bytes assumed: model=%s (%s)",
            assumed_bytes(gpu),
            gpu.model,
            error,
        )
        return assumed_bytes(gpu) if isinstance(error, subprocess.TimeoutExpired) else None


def main() -> None:
    pci_bus_id, index = sys.argv[1].encode(), int(sys.argv[2])
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for code in (
        cuda.cuInit(0),
        cuda.cuDeviceGetByPCIBusId(ctypes.byref(device), pci_bus_id),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    ):
        if code:
            sys.exit(f"the driver reported error {code}")
    used = read_process_memory(handle).get(os.getpid())
    if used is None:  # NVML hides the processes of a container
        used = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used) - int(memory.used)
        most = min(MAX_DIFFERENCE_BYTES, int(memory.total) * MAX_DIFFERENCE_PERCENT // 100)
        if not 0 <= used <= most:
            sys.exit("the free memory of the GPU changed meanwhile")
    print(used)


if __name__ == "__main__":
    main()
