"""Memory that an empty CUDA context takes on a GPU, measured with NVML.

It is no part of any charge: each session has one context on each of its GPUs. A process of its own
measures it, so that the agent holds no context. Run as a program it prints the bytes.
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

from nodes.gpus import Gpu, read_process_memory

log = logging.getLogger("agent")

TIMEOUT_SECONDS = 60


def measure_contexts(gpus: Sequence[Gpu]) -> dict[uuid.UUID, int | None]:
    """Return the bytes of a context by GPU, measured once per model; None where that failed."""
    of_model: dict[str, int | None] = {}
    for gpu in gpus:
        if gpu.model not in of_model:
            of_model[gpu.model] = measure_context(gpu)
    return {gpu.uuid: of_model[gpu.model] for gpu in gpus}


def measure_context(gpu: Gpu) -> int | None:
    """Return the bytes of a context on the GPU, or None. Blocks for up to 60 s."""
    command = [sys.executable, "-m", "nodes.context_memory", gpu.pci_bus_id, str(gpu.index)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True
        )
        return int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("agent: context memory not measured: model=%s (%s)", gpu.model, error)
        return None


def main() -> None:
    pci_bus_id, index = sys.argv[1].encode(), int(sys.argv[2])
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for code in (
        cuda.cuInit(0),
        cuda.cuDeviceGetByPCIBusId(ctypes.byref(device), pci_bus_id),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    ):
        if code:
            sys.exit(f"the driver reported error {code}")
    pynvml.nvmlInit()
    used = read_process_memory(pynvml.nvmlDeviceGetHandleByIndex(index)).get(os.getpid())
    if used is None:
        sys.exit("NVML shows no memory of this process")
    print(used)


if __name__ == "__main__":
    main()
