"""A program that allocates device memory in every way, on command.

It reads lines: `allocate KIND BYTES` answers `ok ID` or `error CODE`; `release ID` answers `ok`;
`read ID` answers the sum of the bytes; `export BYTES` allocates memory for other processes and
answers `ok HANDLE`; `open HANDLE` answers as `allocate` does. It calls the driver directly and
needs no package.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass

UNSIGNED_INT8 = 1
HOST, ARRAY = 1, 3
HEAP_LIMIT = 2
DEFAULT_HEAP_BYTES = 8 << 20
GRANULARITY = 2 << 20
LARGE_COMMENT = 1 << 16

cuda = ctypes.CDLL("libcuda.so.1")


class CudaError(Exception):
    """A call failed; `args[0]` is the code of the driver."""


def call(name: str, *arguments: object) -> None:
    if code := getattr(cuda, name)(*arguments):
        raise CudaError(code)


@dataclass
class Memory:
    """An allocation: how to release it, how to read it, and where it is if it is linear."""

    release: Callable[[], None]
    read: Callable[[], bytes]
    address: int = 0


def read_linear(address: int, count: int) -> bytes:
    host = ctypes.create_string_buffer(count)
    call("cuMemcpyDtoH_v2", host, c_uint64(address), c_size_t(count))
    return host.raw


def linear(address: c_uint64, count: int, free: str = "cuMemFree_v2") -> Memory:
    return Memory(
        lambda: call(free, address), lambda: read_linear(address.value, count), address.value
    )


def plain(count: int) -> Memory:
    address = c_uint64()
    call("cuMemAlloc_v2", byref(address), c_size_t(count))
    return linear(address, count)


def pitched(count: int) -> Memory:
    address, pitch = c_uint64(), c_size_t()
    call(
        "cuMemAllocPitch_v2", byref(address), byref(pitch), c_size_t(100), c_size_t(count // 512), 4
    )
    return linear(address, pitch.value * (count // 512))


def managed(count: int) -> Memory:
    address = c_uint64()
    call("cuMemAllocManaged", byref(address), c_size_t(count), c_uint(1))
    return linear(address, count)


def free_asynchronously(address: c_uint64) -> None:
    call("cuMemFreeAsync", address, None)
    call("cuCtxSynchronize")


def asynchronous(count: int) -> Memory:
    address = c_uint64()
    call("cuMemAllocAsync", byref(address), c_size_t(count), None)
    call("cuCtxSynchronize")
    return Memory(lambda: free_asynchronously(address), lambda: read_linear(address.value, count))


def from_pool(count: int) -> Memory:
    address, pool = c_uint64(), c_void_p()
    call("cuDeviceGetDefaultMemPool", byref(pool), 0)
    call("cuMemAllocFromPoolAsync", byref(address), c_size_t(count), pool, None)
    call("cuCtxSynchronize")
    return Memory(lambda: free_asynchronously(address), lambda: read_linear(address.value, count))


class Location(ctypes.Structure):
    _fields_ = (("type", c_int), ("id", c_int))


class AllocationProperties(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("windows", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class AccessDescription(ctypes.Structure):
    _fields_ = (("location", Location), ("flags", c_int))


def virtual(count: int) -> Memory:
    count = -(-count // GRANULARITY) * GRANULARITY
    properties = AllocationProperties(type=1, location=Location(1, 0))
    handle, address = c_uint64(), c_uint64()
    size, none = c_size_t(count), c_uint64(0)
    call("cuMemCreate", byref(handle), size, byref(properties), none)
    call("cuMemAddressReserve", byref(address), size, c_size_t(0), none, none)
    call("cuMemMap", address, size, c_size_t(0), handle, none)
    access = AccessDescription(Location(1, 0), 3)
    call("cuMemSetAccess", address, size, byref(access), c_size_t(1))

    def release() -> None:
        call("cuMemUnmap", address, size)
        call("cuMemRelease", handle)
        call("cuMemAddressFree", address, size)

    return Memory(release, lambda: read_linear(address.value, count))


class PoolProperties(ctypes.Structure):
    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("others", ctypes.c_ubyte * 72),
    )


class AllocationNode(ctypes.Structure):
    """CUDA_MEM_ALLOC_NODE_PARAMS."""

    _fields_ = (
        ("pool", PoolProperties),
        ("access", c_void_p),
        ("access_count", c_size_t),
        ("bytes", c_size_t),
        ("address", c_uint64),
    )


def of_graph(count: int) -> Memory:
    """Allocate the memory of a node, which is kept until it is trimmed."""
    graph, node = c_void_p(), c_void_p()
    parameters = AllocationNode(PoolProperties(type=1, location=Location(1, 0)), bytes=count)
    call("cuGraphCreate", byref(graph), 0)
    call("cuGraphAddMemAllocNode", byref(node), graph, None, c_size_t(0), byref(parameters))

    def release() -> None:
        call("cuGraphDestroy", graph)
        call("cuDeviceGraphMemTrim", 0)

    return Memory(release, lambda: read_linear(parameters.address, count))


def pinned(count: int) -> Memory:
    """Allocate host memory and use it as device memory."""
    address = c_uint64()
    call("cuMemHostAlloc", byref(address), c_size_t(count), 0)
    call("cuMemsetD8_v2", address, 0, c_size_t(count))
    return linear(address, count, "cuMemFreeHost")


class ArrayDescription(ctypes.Structure):
    _fields_ = (
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
        ("format", c_int),
        ("channels", c_uint),
        ("flags", c_uint),
    )


SIDE_OF_COPY = (
    ("x", c_size_t),
    ("y", c_size_t),
    ("z", c_size_t),
    ("level", c_size_t),
    ("type", c_int),
    ("host", c_void_p),
    ("device", c_uint64),
    ("array", c_void_p),
    ("reserved", c_void_p),
    ("pitch", c_size_t),
    ("height", c_size_t),
)


class Copy(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = (
        *((f"from_{name}", kind) for name, kind in SIDE_OF_COPY),
        *((f"to_{name}", kind) for name, kind in SIDE_OF_COPY),
        ("width", c_size_t),
        ("height", c_size_t),
        ("depth", c_size_t),
    )


def read_array(array: c_void_p, width: int, height: int, depth: int) -> bytes:
    host = ctypes.create_string_buffer(width * height * depth)
    copy = Copy(from_type=ARRAY, from_array=array.value, to_type=HOST)
    copy.to_host = ctypes.cast(host, c_void_p)
    copy.to_pitch, copy.to_height = width, height
    copy.width, copy.height, copy.depth = width, height, depth
    call("cuMemcpy3D_v2", byref(copy))
    return host.raw


def array(width: int, height: int, depth: int) -> Memory:
    made = c_void_p()
    shape = ArrayDescription(width, height, depth, UNSIGNED_INT8, 1, 0)
    call("cuArray3DCreate_v2", byref(made), byref(shape))
    return Memory(
        lambda: call("cuArrayDestroy", made),
        lambda: read_array(made, width, max(height, 1), max(depth, 1)),
    )


def array_of_2_dimensions(count: int) -> Memory:
    made = c_void_p()

    class Flat(ctypes.Structure):
        _fields_ = (
            ("width", c_size_t),
            ("height", c_size_t),
            ("format", c_int),
            ("channels", c_uint),
        )

    call("cuArrayCreate_v2", byref(made), byref(Flat(1000, count // 1000 + 1, UNSIGNED_INT8, 1)))
    return Memory(
        lambda: call("cuArrayDestroy", made),
        lambda: read_array(made, 1000, count // 1000 + 1, 1),
    )


def mipmap(count: int) -> Memory:
    side, levels, requested = 256, 9, 100
    made = c_void_p()
    shape = ArrayDescription(side, side, max(count // side // side, 1), UNSIGNED_INT8, 1, 0)
    call("cuMipmappedArrayCreate", byref(made), byref(shape), c_uint(requested))

    def read() -> bytes:
        content = b""
        for i in range(levels):
            level = c_void_p()
            call("cuMipmappedArrayGetLevel", byref(level), made, c_uint(i))
            content += read_array(level, side >> i, side >> i, max(shape.depth >> i, 1))
        return content

    return Memory(lambda: call("cuMipmappedArrayDestroy", made), read)


def module_text(count: int) -> bytes:
    return (
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        f".visible .global .align 8 .b8 data[{count}];\n"
        ".const .u32 table[4] = {1, 2, 3, 4};\n"
        ".visible .entry nothing() { ret; }\n"
    ).encode()


def module(count: int) -> Memory:
    loaded = c_void_p()
    call("cuModuleLoadData", byref(loaded), module_text(count))
    return Memory(lambda: call("cuModuleUnload", loaded), lambda: read_symbol(loaded, count))


def refused_module(count: int) -> Memory:
    """Load a module that is no valid PTX behind its variables."""
    loaded = c_void_p()
    call("cuModuleLoadData", byref(loaded), module_text(count) + b".entry broken( {")
    return Memory(lambda: None, lambda: b"")


def large_module(count: int) -> Memory:
    """Load a module that is too large for the record of the call."""
    loaded = c_void_p()
    call("cuModuleLoadData", byref(loaded), module_text(count) + b"//" + LARGE_COMMENT * b"x")
    return Memory(lambda: call("cuModuleUnload", loaded), lambda: read_symbol(loaded, count))


def deep_function(_: int) -> Memory:
    """Get a function that needs large stacks on the null driver."""
    loaded, function = c_void_p(), c_void_p()
    text = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry deep() { ret; }\n"
    call("cuModuleLoadData", byref(loaded), text)
    call("cuModuleGetFunction", byref(function), loaded, b"deep")
    return Memory(lambda: call("cuModuleUnload", loaded), lambda: b"")


def read_symbol(loaded: c_void_p, count: int) -> bytes:
    address, size = c_uint64(), c_size_t()
    call("cuModuleGetGlobal_v2", byref(address), byref(size), loaded, b"data")
    assert size.value == count
    return read_linear(address.value, count)


def linked_module(count: int) -> Memory:
    state, image, size, loaded = c_void_p(), c_void_p(), c_size_t(), c_void_p()
    text = module_text(count)
    call("cuLinkCreate_v2", 0, None, None, byref(state))
    call("cuLinkAddData_v2", state, 1, text, c_size_t(len(text) + 1), b"text", 0, None, None)
    call("cuLinkComplete", state, byref(image), byref(size))
    call("cuModuleLoadData", byref(loaded), image)
    call("cuLinkDestroy", state)
    return Memory(lambda: call("cuModuleUnload", loaded), lambda: read_symbol(loaded, count))


def library(count: int) -> Memory:
    loaded, of_library = c_void_p(), c_void_p()
    text = module_text(count)
    call("cuLibraryLoadData", byref(loaded), text, None, None, 0, None, None, 0)
    call("cuLibraryGetModule", byref(of_library), loaded)
    return Memory(lambda: call("cuLibraryUnload", loaded), lambda: read_symbol(of_library, count))


def heap(count: int) -> Memory:
    call("cuCtxSetLimit", HEAP_LIMIT, c_size_t(DEFAULT_HEAP_BYTES + count))
    return Memory(
        lambda: call("cuCtxSetLimit", HEAP_LIMIT, c_size_t(DEFAULT_HEAP_BYTES)), lambda: b""
    )


class IpcHandle(ctypes.Structure):
    _fields_ = (("token", ctypes.c_ubyte * 64),)


def export(count: int) -> str:
    address, handle = c_uint64(), IpcHandle()
    call("cuMemAlloc_v2", byref(address), c_size_t(count))
    call("cuIpcGetMemHandle", byref(handle), address)
    return bytes(handle).hex()


def opened(handle: str) -> Memory:
    address = c_uint64()
    token = IpcHandle.from_buffer_copy(bytes.fromhex(handle))
    call("cuIpcOpenMemHandle_v2", byref(address), token, c_uint(1))
    return Memory(lambda: call("cuIpcCloseMemHandle", address), lambda: b"")


KINDS: dict[str, Callable[[int], Memory]] = {
    "cuMemAlloc": plain,
    "cuMemAllocPitch": pitched,
    "cuMemAllocManaged": managed,
    "cuMemAllocAsync": asynchronous,
    "cuMemAllocFromPoolAsync": from_pool,
    "cuMemCreate": virtual,
    "cuArrayCreate": array_of_2_dimensions,
    "cuArray3DCreate": lambda count: array(100, 10, count // 1000 + 1),
    "cuMipmappedArrayCreate": mipmap,
    "cuModuleLoadData": module,
    "cuLinkComplete": linked_module,
    "cuLibraryLoadData": library,
    "cuCtxSetLimit": heap,
    "cuGraphAddMemAllocNode": of_graph,
    "cuMemHostAlloc": pinned,
}
"""The ways to allocate device memory, by the name of the driver's function."""
OTHERS: dict[str, Callable[[int], Memory]] = {
    "refused_module": refused_module,
    "large_module": large_module,
    "deep_function": deep_function,
}


def main() -> None:
    context = c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", byref(context), 0)
    call("cuCtxSetCurrent", context)
    held: dict[int, Memory] = {}
    print("ready", flush=True)
    for number, line in enumerate(sys.stdin):
        action, *arguments = line.split()
        try:
            if action == "allocate":
                held[number] = (KINDS | OTHERS)[arguments[0]](int(arguments[1]))
                answer = f"ok {number}"
            elif action == "release":
                held.pop(int(arguments[0])).release()
                answer = "ok"
            elif action == "export":
                answer = f"ok {export(int(arguments[0]))}"
            elif action == "open":
                held[number] = opened(arguments[0])
                answer = f"ok {number}"
            else:
                answer = f"ok {sum(held[int(arguments[0])].read())}"
        except CudaError as error:
            answer = f"error {error}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
