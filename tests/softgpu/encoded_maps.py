"""A kernel that receives a tensor map of cuTensorMapEncodeTiled by value, in a child process."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tests.softgpu.driver import Device, serve

Array = np.ndarray[Any, Any]

UINT32 = 2
"""A CUtensorMapDataType."""
BIT_21 = 1 << 21
MEMORY_BYTES = 4 << 20
"""Of an allocation: more than the place whose address has bit 21 needs."""

KERNEL = """.version 9.0
.target sm_120a
.address_size 64
.visible .entry k(.param .align 128 .b8 map[128], .param .u64 out) {
.reg .b32 %r<4>; .reg .b64 %l<4>; .reg .pred %p<3>;
.shared .align 128 .b8 tile[128]; .shared .b64 bar;
mov.b64 %l1, map; cvta.param.u64 %l1, %l1; ld.param.u64 %l2, [out];
mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 128;
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
  [tile], [%l1, {0, 0}], [bar];
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra WAIT;
mov.u32 %r1, 0; mov.u32 %r2, tile;
OUT: ld.shared.b32 %r3, [%r2]; st.global.b32 [%l2], %r3;
add.u64 %l2, %l2, 4; add.u32 %r2, %r2, 4; add.u32 %r1, %r1, 4;
setp.lt.u32 %p2, %r1, 128; @%p2 bra OUT;
ret; }
"""


def encode(device: Device, address: int, shape: tuple[int, int]) -> Array:
    """Return the words of a map of a tensor of 32-bit numbers, whose box is the whole tensor."""
    rows, columns = shape
    room = np.zeros(32, np.uint64)  # 128 bytes at a multiple of 128, as the type demands
    first = -room.ctypes.data % 128 // 8
    words = room[first : first + 16]
    device.call(
        "cuTensorMapEncodeTiled",
        words.ctypes.data_as(ctypes.c_void_p),
        UINT32,
        2,
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(columns, rows),
        (ctypes.c_uint64 * 1)(columns * 4),
        (ctypes.c_uint32 * 2)(columns, rows),
        (ctypes.c_uint32 * 2)(1, 1),
        *(0, 0, 0, 0),
    )
    return words


def loaded_box(device: Device, job: dict[str, Any]) -> Array:
    """Return what the kernel loads by the map of the job's tensor.

    Bit 21 of the tensor's address is set. The bits `cleared` of the map's second word are cleared
    before the launch.
    """
    tensor: Array = job["tensor"]
    memory, out = ctypes.c_uint64(), ctypes.c_uint64()
    device.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(MEMORY_BYTES))
    device.call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(tensor.nbytes))
    address = memory.value if memory.value & BIT_21 else (memory.value | BIT_21 - 1) + 1
    data, size = ctypes.c_void_p(tensor.ctypes.data), ctypes.c_size_t(tensor.nbytes)
    device.call("cuMemcpyHtoD_v2", ctypes.c_uint64(address), data, size)
    words = encode(device, address, tensor.shape)
    words[1] &= np.uint64(~job["cleared"] & (1 << 64) - 1)
    function = ctypes.c_void_p()
    device.call("cuModuleGetFunction", ctypes.byref(function), device.load(KERNEL), b"k")
    parameters = (ctypes.c_void_p * 2)(words.ctypes.data, ctypes.addressof(out))
    device.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
    found = np.empty_like(tensor)
    device.call("cuMemcpyDtoH_v2", ctypes.c_void_p(found.ctypes.data), out, size)
    return found


if __name__ == "__main__":
    serve(loaded_box)
