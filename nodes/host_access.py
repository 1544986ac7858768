"""Whether kernels can address the host memory of their process.

They can where the GPU uses the page tables of the process, as with heterogeneous memory management
(HMM) of NVIDIA's open kernel modules. A kernel of a tenant then reads and writes the memory of its
session server, and runs code of its own there. Run as a program it prints the number of GPUs for
which the driver says so.
"""

from __future__ import annotations

import ctypes
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from nodes.driver_process import ask_driver
from nodes.launcher_control import SessionList

log = logging.getLogger("agent")

HOST_MEMORY = "host_memory"
"""Name of the layer of isolation: kernels cannot address the memory of their session server."""
PAGEABLE_MEMORY_ACCESS = 88
"""CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS."""
MODULE = Path("/sys/module/nvidia_uvm")
"""Present while the module that decides on HMM is loaded."""


def loaded_module() -> int | None:
    """Return a number that differs each time `nvidia-uvm` is loaded, or None without it."""
    try:
        return MODULE.stat().st_ino
    except OSError:
        return None


def host_memory_is_closed() -> bool | None:
    """Return whether the driver says of all GPUs that kernels cannot address host memory.

    Blocks for up to 60 s. None without an answer.
    """
    try:
        reaching = ask_driver("nodes.host_access")
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("agent: access of kernels to host memory unknown, will ask again (%s)", error)
        return None
    if reaching:
        log.warning(
            "agent: kernels can address host memory of their session server: GPUs=%d."
            " To prevent it, load nvidia-uvm with uvm_disable_hmm=1.",
            reaching,
        )
    return not reaching


def with_host_memory(listed: SessionList, closed: bool | None) -> SessionList:
    """Return the sessions with the layer `host_memory`, which the launcher does not know.

    The layers of the node are unknown while `closed` is None, without an answer of the driver.
    """
    sessions = tuple(
        replace(s, isolation=s.isolation | {HOST_MEMORY: bool(closed)}) for s in listed.sessions
    )
    layers = () if closed is None else listed.isolation
    if closed and layers:
        layers = (*layers, HOST_MEMORY)
    return replace(listed, sessions=sessions, isolation=layers)


def main() -> None:
    cuda = ctypes.CDLL("libcuda.so.1")
    count, device, value = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGetCount(ctypes.byref(count)))
    reaching = 0
    for ordinal in range(count.value):
        check(cuda.cuDeviceGet(ctypes.byref(device), ordinal))
        check(cuda.cuDeviceGetAttribute(ctypes.byref(value), PAGEABLE_MEMORY_ACCESS, device))
        reaching += value.value != 0
    print(reaching)


def check(code: int) -> None:
    if code:
        sys.exit(f"the driver reported error {code}")


if __name__ == "__main__":
    main()
