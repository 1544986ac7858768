"""Program of `busbar doctor` that uses the GPU as other programs do, and prints JSON.

It runs in a process of its own, with the environment of a program. It imports the standard library
only: Python starts it as a file, isolated from this package.

`load` prints the file that answers for libcuda.so.1. `measure` also times calls on the first GPU.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

LIBRARY = "libcuda.so.1"
CALLS = 50
CALLS_SECONDS = 2.0
"""Calls end after so many seconds, also if fewer were made."""
FIRST_BYTES, LAST_BYTES = 1 << 20, 64 << 20
LONG_COPY_SECONDS = 0.3
"""A copy that takes so long is large enough."""


class Failure(Exception):
    """A function of CUDA returned an error."""


def load() -> Any:
    """Load the library by its name, as programs do. Raises Failure."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise Failure(str(error)) from None


def loaded_file() -> str:
    """Return the path of the library in this process."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if Path(path).name.startswith("libcuda.so"):
            return f"/{path}"
    return ""


class Gpu:
    """The first GPU, with some memory of it."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self.call("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self._memory = ctypes.c_uint64()
        self._size = LAST_BYTES
        while self._cuda.cuMemAlloc_v2(ctypes.byref(self._memory), ctypes.c_size_t(self._size)):
            self._size //= 2  # the partition may be small, or programs use it
            if self._size < FIRST_BYTES:
                raise Failure("the allocation has less than 1 MiB of GPU memory left")

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._cuda, name)(*arguments)
        if status:
            raise Failure(f"{name} returned the CUDA error {status}")

    def call_seconds(self) -> float:
        """Return the median time of a call that waits for the GPU."""
        word, end = ctypes.c_uint32(), time.monotonic() + CALLS_SECONDS
        times: list[float] = []
        while len(times) < CALLS and time.monotonic() < end:
            begun = time.perf_counter()
            size = ctypes.c_size_t(ctypes.sizeof(word))
            self.call("cuMemcpyDtoH_v2", ctypes.byref(word), self._memory, size)
            times.append(time.perf_counter() - begun)
        return statistics.median(times)

    def bytes_per_second(self) -> float:
        """Return the rate of a copy to the GPU that is large enough to tell."""
        size = FIRST_BYTES
        while True:
            seconds = self._copy_seconds(size)
            if seconds > LONG_COPY_SECONDS or size * 2 > self._size:
                return size / seconds
            size *= 2

    def _copy_seconds(self, size: int) -> float:
        source = (ctypes.c_char * size)()
        begun = time.perf_counter()
        self.call("cuMemcpyHtoD_v2", self._memory, source, ctypes.c_size_t(size))
        self.call("cuCtxSynchronize")
        return time.perf_counter() - begun


def probe(mode: str) -> dict[str, Any]:
    try:
        cuda = load()
        found: dict[str, Any] = {"library": loaded_file()}
        if mode == "measure":
            gpu = Gpu(cuda)
            found["bytes_per_second"] = gpu.bytes_per_second()
            found["call_seconds"] = gpu.call_seconds()
    except (Failure, AttributeError) as error:
        return {"error": str(error)}
    return found


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1])))
