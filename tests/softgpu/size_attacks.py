"""Calls of the driver with sizes whose products and sums wrap. A child process runs one at a time.

`python -m tests.softgpu.size_attacks NAME [LIBRARY]` prints the error code of the call, and that of
an ordinary allocation and a synchronisation after it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

from tests.softgpu.driver import CudaError, Device

HOST, DEVICE, ARRAY = 1, 2, 3
"""CUmemorytype."""
RESOURCE_ARRAY, RESOURCE_LINEAR, RESOURCE_PITCH2D = 0, 2, 3
FLOAT_FORMAT = 32
MEBIBYTE = 1 << 20

U64 = ctypes.c_uint64
U32 = ctypes.c_uint32


class Resource(ctypes.Structure):
    """CUDA_RESOURCE_DESC: the union is 128 bytes."""

    _fields_ = (("kind", U32), ("union", U64 * 16), ("flags", U32))


class Texture(ctypes.Structure):
    _fields_ = (("bytes", U32 * 32),)


class ArrayShape(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR"""

    _fields_ = (
        *(("width", U64), ("height", U64), ("depth", U64)),
        *(("format", U32), ("channels", U32), ("flags", U32)),
    )


class Side(ctypes.Structure):
    _fields_ = (
        *(("x", U64), ("y", U64), ("z", U64), ("level", U64), ("type", U32)),
        *(("host", U64), ("device", U64), ("array", U64), ("reserved", U64)),
        *(("pitch", U64), ("height", U64)),
    )


class Copy(ctypes.Structure):
    """CUDA_MEMCPY3D"""

    _fields_ = (("source", Side), ("target", Side), ("width", U64), ("height", U64), ("depth", U64))


class Fill(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS"""

    _fields_ = (
        *(("target", U64), ("pitch", U64), ("value", U32), ("element_bytes", U32)),
        *(("width", U64), ("height", U64)),
    )


class BatchOperand(ctypes.Structure):
    """CUmemcpy3DOperand: the union is a pointer with its sizes, or an array with an offset."""

    _fields_ = (("kind", U32), ("union", U64 * 4))


class BatchCopy(ctypes.Structure):
    """CUDA_MEMCPY3D_BATCH_OP"""

    _fields_ = (
        *(("source", BatchOperand), ("target", BatchOperand)),
        *(("width", U64), ("height", U64), ("depth", U64), ("order", U32), ("flags", U32)),
    )


def allocate(device: Device, count: int = MEBIBYTE) -> U64:
    p = U64()
    device.call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(count))
    return p


def create_texture(device: Device, resource: Resource) -> None:
    device.call(
        "cuTexObjectCreate",
        ctypes.byref(U64()),
        ctypes.byref(resource),
        ctypes.byref(Texture()),
        None,
    )


def texture_of_rows(device: Device, width: int, height: int, pitch: int) -> None:
    resource = Resource(RESOURCE_PITCH2D)
    resource.union[0] = allocate(device).value
    resource.union[1] = 1 << 32 | FLOAT_FORMAT  # format and number of channels
    resource.union[2], resource.union[3], resource.union[4] = width, height, pitch
    create_texture(device, resource)


def linear_texture(device: Device, channels: int, count: int) -> None:
    resource = Resource(RESOURCE_LINEAR)
    resource.union[0] = allocate(device).value
    resource.union[1] = channels << 32 | FLOAT_FORMAT
    resource.union[2] = count
    create_texture(device, resource)


def create_array(device: Device, width: int, height: int = 1, depth: int = 1) -> U64:
    array = U64()
    shape = ArrayShape(width, height, depth, FLOAT_FORMAT, 1, 0)
    device.call("cuArray3DCreate_v2", ctypes.byref(array), ctypes.byref(shape))
    return array


def copy(device: Device, source: Side, width: int, height: int, depth: int) -> None:
    target = Side(type=DEVICE, device=allocate(device).value)
    device.call("cuMemcpy3D_v2", ctypes.byref(Copy(source, target, width, height, depth)))


def copy_of_wrapping_slices(device: Device) -> None:
    array = create_array(device, 256, 4, 4)
    copy(device, Side(z=(1 << 64) - 1, type=ARRAY, array=array.value), 256, 1, 2)


def copy_of_wrapping_columns(device: Device) -> None:
    array = create_array(device, 256, 4, 4)
    copy(device, Side(x=(1 << 64) - 128, type=ARRAY, array=array.value), 256, 1, 1)


def copy_of_wrapping_rows(device: Device) -> None:
    source = Side(type=DEVICE, device=allocate(device).value, pitch=1 << 63, height=1)
    copy(device, source, 256, 3, 1)


def copy_of_wrapping_pitch(device: Device) -> None:
    source = Side(x=(1 << 64) - 256, type=DEVICE, device=allocate(device).value)
    copy(device, source, 512, 1, 1)


def fill_of_wrapping_words(device: Device) -> None:
    device.call("cuMemsetD32_v2", allocate(device), 1, ctypes.c_size_t((1 << 62) + 1))
    device.call("cuCtxSynchronize")


def fill_of_wrapping_rows(device: Device) -> None:
    pitch, width = ctypes.c_size_t(512), ctypes.c_size_t((1 << 62) + 1)
    device.call("cuMemsetD2D32_v2", allocate(device), pitch, 1, width, ctypes.c_size_t(1))
    device.call("cuCtxSynchronize")


def fill_of_rows_in_one_place(device: Device) -> None:
    graph, node = U64(), U64()
    device.call("cuGraphCreate", ctypes.byref(graph), 0)
    fill = Fill(allocate(device).value, 0, 1, 4, 16, 1 << 50)
    context = ctypes.c_void_p()
    device.call("cuCtxGetCurrent", ctypes.byref(context))
    device.call(
        "cuGraphAddMemsetNode", ctypes.byref(node), graph, None, 0, ctypes.byref(fill), context
    )


def pitched_allocation(device: Device) -> None:
    p, pitch = U64(), U64()
    height = ctypes.c_size_t((1 << 55) + 1)
    device.call(
        "cuMemAllocPitch_v2",
        *(ctypes.byref(p), ctypes.byref(pitch), ctypes.c_size_t(512), height, 4),
    )


def access_behind_mapping(device: Device) -> None:
    size = 2 * MEBIBYTE
    at, handle = U64(), U64()
    device.call(
        "cuMemAddressReserve", ctypes.byref(at), ctypes.c_size_t(2 * size), 0, U64(0), U64(0)
    )
    properties = (U32 * 16)(1, 0, 1, 0)  # pinned memory of device 0
    device.call(
        "cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(properties), U64(0)
    )
    device.call("cuMemMap", at, ctypes.c_size_t(size), 0, handle, U64(0))
    access = (U32 * 3)(1, 0, 3)  # reads and writes of device 0
    device.call("cuMemSetAccess", at, ctypes.c_size_t(size), ctypes.byref(access), 1)
    device.call("cuMemSetAccess", at, ctypes.c_size_t(2 * size), ctypes.byref(access), 1)


def reserve(device: Device, size: int) -> int:
    at = U64()
    device.call("cuMemAddressReserve", ctypes.byref(at), ctypes.c_size_t(size), 0, U64(0), U64(0))
    return int(at.value)


def reservation_that_wraps(device: Device) -> None:
    size = 2 * MEBIBYTE
    try:
        reserve(device, (1 << 64) - size)
    finally:
        first, second = reserve(device, size), reserve(device, size)
        assert second >= first + size  # the failure has left the position of new ranges alone


def managed_allocation(device: Device, size: int) -> None:
    device.call("cuMemAllocManaged", ctypes.byref(U64()), ctypes.c_size_t(size), 1)


def batch_copy(device: Device, width: int, row_length: int = 0, x: int = 0) -> None:
    array = create_array(device, 256, 4)
    source = BatchOperand(1, (U64 * 4)(allocate(device).value, row_length, 0, 0))
    target = BatchOperand(2, (U64 * 4)(array.value, x, 0, 0))
    operation = BatchCopy(source, target, width, 1, 1)
    device.call("cuMemcpy3DBatchAsync_v2", U64(1), ctypes.byref(operation), U64(0), None)


ATTACKS: dict[str, Callable[[Device], None]] = {
    "texture whose width wraps": lambda d: texture_of_rows(d, (1 << 62) + 64, 1, 512),
    "texture whose pitch wraps": lambda d: texture_of_rows(d, 64, (1 << 55) + 1, 512),
    "texture without rows": lambda d: texture_of_rows(d, 64, 0, 128),
    "texture whose rows overlap": lambda d: texture_of_rows(d, 1 << 17, 64, 512),
    "linear texture with 1000 channels": lambda d: linear_texture(d, 1000, MEBIBYTE),
    "linear texture behind its memory": lambda d: linear_texture(d, 1, 1 << 40),
    "array whose rows wrap": lambda d: (create_array(d, (1 << 62) + 64), None)[1],
    "copy of slices that wrap": copy_of_wrapping_slices,
    "copy of columns that wrap": copy_of_wrapping_columns,
    "copy of rows that wrap": copy_of_wrapping_rows,
    "copy whose pitch wraps": copy_of_wrapping_pitch,
    "fill of words that wrap": fill_of_wrapping_words,
    "fill of rows that wrap": fill_of_wrapping_rows,
    "fill of many rows in one place": fill_of_rows_in_one_place,
    "pitched allocation that wraps": pitched_allocation,
    "access behind a mapping": access_behind_mapping,
    "reservation that wraps": reservation_that_wraps,
}
CLIENT_ATTACKS: dict[str, Callable[[Device], None]] = {
    "managed allocation that wraps": lambda d: managed_allocation(d, (1 << 64) - 1),
    "managed allocation of all pages": lambda d: managed_allocation(d, (1 << 64) - 4096),
    "batch copy whose width wraps": lambda d: batch_copy(d, (1 << 62) + 16),
    "batch copy whose row length wraps": lambda d: batch_copy(d, 16, row_length=(1 << 62) + 16),
    "batch copy whose offset wraps": lambda d: batch_copy(d, 16, x=1 << 62),
}
"""Calls that the client library serves itself."""


def main() -> None:
    device = Device(*sys.argv[2:])
    try:
        (ATTACKS | CLIENT_ATTACKS)[sys.argv[1]](device)
        print(0)
    except CudaError as error:
        print(error.code)
    try:
        allocate(device)
        device.call("cuCtxSynchronize")
        print(0)
    except CudaError as error:
        print(error.code)


if __name__ == "__main__":
    main()
