"""A program that uses the GPU and starts processes that do.

`python -m tests.remoting.forking_program PARENT START KIND...` does the work PARENT, starts a
process for each KIND, and prints what each saw and what the program saw of its own GPU afterwards.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from ctypes import byref, c_size_t, c_ubyte, c_uint64, c_void_p

import pynvml as nvml

VALUE = 7
DEADLINE_SECONDS = 60


def ask_nvml() -> str:
    try:
        nvml.nvmlInit()
        nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByIndex(0))
    except nvml.NVMLError as error:
        return f"NVML {error}"
    return "NVML works"


def ask_inherited_nvml() -> str:
    """Use NVML without initialising it, which a fork inherits, until it shows memory of CUDA."""
    end = time.monotonic() + DEADLINE_SECONDS
    device = nvml.nvmlDeviceGetHandleByIndex(0)
    before = nvml.nvmlDeviceGetMemoryInfo(device).used
    if (computed := compute()) != "CUDA works":
        return computed
    while time.monotonic() < end:
        if nvml.nvmlDeviceGetMemoryInfo(device).used > before:
            return "NVML works"
    return "NVML shows the memory of its parent"


def compute() -> str:
    """Fill memory of the GPU and read it."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, memory, seen = c_void_p(), c_uint64(), (c_ubyte * 4096)()
    size = c_size_t(len(seen))
    calls: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("cuInit", (0,)),
        ("cuDevicePrimaryCtxRetain", (byref(context), 0)),
        ("cuCtxSetCurrent", (context,)),
        ("cuMemAlloc_v2", (byref(memory), size)),
        ("cuMemsetD8_v2", (memory, c_ubyte(VALUE), size)),
        ("cuMemcpyDtoH_v2", (seen, memory, size)),
    )
    for name, arguments in calls:
        if code := getattr(cuda, name)(*arguments):
            return f"{name} {code}"
    return "CUDA works" if set(seen) == {VALUE} else "CUDA has other bytes"


WORK: dict[str, tuple[Callable[[], str], ...]] = {
    "nothing": (),
    "NVML": (ask_nvml,),
    "CUDA": (compute,),
    "both": (ask_nvml, compute),
    "inherited NVML": (ask_inherited_nvml,),
}


def work(kind: str) -> list[str]:
    return [ask() for ask in WORK[kind]]


def from_process(start: str, kind: str) -> list[str]:
    """Return what a process of `multiprocessing` saw."""
    with multiprocessing.get_context(start).Pool(1) as pool:
        return pool.apply(work, (kind,))


def from_program(kind: str) -> list[str]:
    """Return what a program saw that `vfork` and `exec` started."""
    command = [sys.executable, "-m", "tests.remoting.forking_program", "child", kind]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, close_fds=False).stdout
    seen: list[str] = json.loads(output)
    return seen


def from_grandchild(kind: str) -> list[str]:
    """Return what a process saw whose parent was forked and did the same work."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        own, grandchild = work(kind), from_process("fork", kind)
        os.write(writer, json.dumps(own + grandchild).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        seen: list[str] = json.load(pipe)
    os.waitpid(pid, 0)
    return seen


def from_child(start: str, kind: str) -> list[str]:
    if start == "vfork and exec":
        return from_program(kind)
    return from_grandchild(kind) if start == "fork twice" else from_process(start, kind)


def hold(parent: str) -> None:
    """Do the work, start a process that waits, print its id, and wait for the end of the input."""
    work(parent)
    reader, _ = os.pipe()
    if (pid := os.fork()) == 0:
        os.read(reader, 1)
    print(pid, flush=True)
    sys.stdin.read()


def main(parent: str, start: str, *kinds: str) -> None:
    if parent == "child":
        print(json.dumps(work(start)))
    elif start == "hold":
        hold(parent)
    else:
        work(parent)
        seen = {kind: from_child(start, kind) for kind in kinds}
        print(json.dumps(seen | {"parent": work(parent)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
