"""A program that allocates all memory that is free on each of its devices, and holds it.

It prints the bytes of each device, or `error CODE`, and waits until its input ends.
"""

from __future__ import annotations

import sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

from tests.remoting.allocating_program import CudaError, call


def fill(device: int) -> int:
    """Return the bytes that were allocated."""
    context, address = c_void_p(), c_uint64()
    free, total = c_size_t(), c_size_t()
    call("cuDevicePrimaryCtxRetain", byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemGetInfo_v2", byref(free), byref(total))
    call("cuMemAlloc_v2", byref(address), free)
    return free.value


def main() -> None:
    count = c_int()
    call("cuInit", 0)
    call("cuDeviceGetCount", byref(count))
    for device in range(count.value):
        try:
            print(fill(device), flush=True)
        except CudaError as error:
            print(f"error {error}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
