"""Programs on cuda-python and NVRTC, each for one part of the driver.

`python -m tests.softgpu.cuda_programs NAME` exits with 0 if the results are correct.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
from typing import Any

import numpy as np
from cuda.bindings import driver as cu

from tests.softgpu.cuda_python import (
    Array,
    compile_module,
    create_context,
    error_code,
    get_function,
    i32,
    launch,
    ok,
    pack_arguments,
    to_device,
    to_host,
    u64,
)
from tests.softgpu.cuda_sources import (
    ASSERT,
    BARRIER,
    CALLS,
    COOPERATIVE,
    CUB,
    SCALE,
    TEXTURE,
    WMMA,
)

RNG = np.random.default_rng(3)


def graphs() -> None:
    create_context()
    f, stream, a = (
        get_function(compile_module(SCALE), "scale"),
        ok(cu.cuStreamCreate(1)),
        np.arange(1000, dtype=np.float32),
    )
    p, out = to_device(a), np.zeros_like(a)
    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    launch(f, 4, 256, u64(p), ctypes.c_float(3), i32(1000), stream=stream)
    assert error_code(cu.cuMemAlloc(64)) == 900  # not permitted: invalidates the capture
    assert error_code(cu.cuStreamEndCapture(stream)) == 901
    np.testing.assert_array_equal(to_host(p, a), a)
    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    other, fork, join = ok(cu.cuStreamCreate(1)), ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
    launch(f, 4, 256, u64(p), ctypes.c_float(3), i32(1000), stream=stream)
    ok(cu.cuEventRecord(fork, stream))
    ok(cu.cuStreamWaitEvent(other, fork, 0))
    launch(f, 4, 256, u64(p), ctypes.c_float(2), i32(1000), stream=other)
    ok(cu.cuEventRecord(join, other))
    assert error_code(cu.cuStreamEndCapture(stream)) == 904  # unjoined fork
    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    launch(f, 4, 256, u64(p), ctypes.c_float(3), i32(1000), stream=stream)
    ok(cu.cuEventRecord(fork, stream))
    ok(cu.cuStreamWaitEvent(other, fork, 0))
    launch(f, 4, 256, u64(p), ctypes.c_float(2), i32(1000), stream=other)
    ok(cu.cuEventRecord(join, other))
    ok(cu.cuStreamWaitEvent(stream, join, 0))
    ok(cu.cuMemcpyDtoHAsync(out.ctypes.data, p, out.nbytes, stream))
    graph = ok(cu.cuStreamEndCapture(stream))
    assert len(ok(cu.cuGraphGetNodes(graph, 3))[0]) == 3
    np.testing.assert_array_equal(to_host(p, a), a)  # no kernel ran during the capture
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    for _ in range(2):
        ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(out, a * 36)
    explicit_nodes(p, a)


def explicit_nodes(p: int, a: Array) -> None:
    graph, fill = ok(cu.cuGraphCreate(0)), cu.CUDA_MEMSET_NODE_PARAMS()
    fill.dst, fill.elementSize, fill.width, fill.height, fill.value = p, 4, 500, 1, 0x40400000
    node = ok(cu.cuGraphAddMemsetNode(graph, [], 0, fill, ok(cu.cuCtxGetCurrent())))
    assert ok(cu.cuGraphNodeGetType(node)) == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
    empty = ok(cu.cuGraphAddEmptyNode(graph, [node], 1))
    assert len(ok(cu.cuGraphGetRootNodes(graph, 1))[0]) == 1
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    fill.value = 0x40800000
    ok(cu.cuGraphExecMemsetNodeSetParams(executable, node, fill, ok(cu.cuCtxGetCurrent())))
    ok(cu.cuGraphLaunch(executable, 0))
    ok(cu.cuCtxSynchronize())
    np.testing.assert_array_equal(to_host(p, a)[:500], np.full(500, 4, np.float32))
    assert error_code(cu.cuGraphAddDependencies(graph, [empty], [empty], None, 1)) != 0


def pools() -> None:
    create_context()
    stream, pool = ok(cu.cuStreamCreate(0)), ok(cu.cuDeviceGetDefaultMemPool(0))
    used = cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT
    free_before = ok(cu.cuMemGetInfo())[0]
    p = ok(cu.cuMemAllocAsync(1 << 20, stream))
    ok(cu.cuMemsetD8Async(p, 7, 1 << 20, stream))
    assert int(ok(cu.cuMemPoolGetAttribute(pool, used))) == 1 << 20
    out = np.zeros(1 << 20, np.uint8)
    ok(cu.cuMemcpyDtoHAsync(out.ctypes.data, p, out.nbytes, stream))
    ok(cu.cuMemFreeAsync(p, stream))
    ok(cu.cuStreamSynchronize(stream))
    assert (out == 7).all()
    assert ok(cu.cuMemGetInfo())[0] == free_before
    assert int(ok(cu.cuMemPoolGetAttribute(pool, used))) == 0
    assert error_code(cu.cuMemFreeAsync(p, stream)) == 1


def stream_memory() -> None:
    create_context()
    first, second, word = (
        ok(cu.cuStreamCreate(1)),
        ok(cu.cuStreamCreate(1)),
        to_device(np.zeros(4, np.uint32)),
    )
    ok(cu.cuStreamWaitValue32(first, word, 5, 0))
    ok(cu.cuStreamWriteValue32(first, word + 4, 9, 0))
    assert error_code(cu.cuStreamQuery(first)) == 600
    ok(cu.cuStreamWriteValue32(second, word, 5, 0))
    ok(cu.cuStreamSynchronize(first))
    assert to_host(word, np.zeros(4, np.uint32)).tolist() == [5, 9, 0, 0]


def rows_and_planes() -> None:
    create_context()
    a = RNG.random((20, 30), dtype=np.float32)
    p, pitch = ok(cu.cuMemAllocPitch(30 * 4, 20, 4))
    c = cu.CUDA_MEMCPY2D()
    c.srcMemoryType, c.srcHost, c.srcPitch = cu.CUmemorytype.CU_MEMORYTYPE_HOST, a.ctypes.data, 120
    c.dstMemoryType, c.dstDevice, c.dstPitch = cu.CUmemorytype.CU_MEMORYTYPE_DEVICE, p, pitch
    c.WidthInBytes, c.Height = 120, 20
    ok(cu.cuMemcpy2D(c))
    back = np.zeros((10, 8), np.float32)
    d = cu.CUDA_MEMCPY2D()
    d.srcMemoryType, d.srcDevice, d.srcPitch, d.srcXInBytes, d.srcY = (
        cu.CUmemorytype.CU_MEMORYTYPE_DEVICE,
        p,
        pitch,
        16,
        5,
    )
    d.dstMemoryType, d.dstHost, d.dstPitch, d.WidthInBytes, d.Height = (
        cu.CUmemorytype.CU_MEMORYTYPE_HOST,
        back.ctypes.data,
        32,
        32,
        10,
    )
    ok(cu.cuMemcpy2D(d))
    np.testing.assert_array_equal(back, a[5:15, 4:12])
    ok(cu.cuMemsetD2D32(int(p) + 8, pitch, 0x3F800000, 3, 20))
    ok(cu.cuMemcpy2D(d))
    row = np.zeros(30, np.float32)
    ok(cu.cuMemcpyDtoH(row.ctypes.data, p, 120))
    np.testing.assert_array_equal(row, np.concatenate([a[0, :2], [1, 1, 1], a[0, 5:]]))


def textures() -> None:
    create_context()
    a, d = RNG.random((16, 24), dtype=np.float32), cu.CUDA_ARRAY_DESCRIPTOR()
    d.Width, d.Height, d.Format, d.NumChannels = 24, 16, cu.CUarray_format.CU_AD_FORMAT_FLOAT, 1
    array, c = ok(cu.cuArrayCreate(d)), cu.CUDA_MEMCPY2D()
    c.srcMemoryType, c.srcHost, c.srcPitch = cu.CUmemorytype.CU_MEMORYTYPE_HOST, a.ctypes.data, 96
    c.dstMemoryType, c.dstArray, c.WidthInBytes, c.Height = (
        cu.CUmemorytype.CU_MEMORYTYPE_ARRAY,
        array,
        96,
        16,
    )
    ok(cu.cuMemcpy2D(c))
    f = get_function(compile_module(TEXTURE), "read")
    x, y = RNG.random(500, dtype=np.float32) * 30 - 3, RNG.random(500, dtype=np.float32) * 20 - 2
    for linear in (False, True):
        resource, texture = cu.CUDA_RESOURCE_DESC(), cu.CUDA_TEXTURE_DESC()
        resource.resType, resource.res.array.hArray = (
            cu.CUresourcetype.CU_RESOURCE_TYPE_ARRAY,
            array,
        )
        texture.addressMode = [cu.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
        texture.filterMode = (
            cu.CUfilter_mode.CU_TR_FILTER_MODE_LINEAR
            if linear
            else cu.CUfilter_mode.CU_TR_FILTER_MODE_POINT
        )
        t, out = (
            ok(cu.cuTexObjectCreate(resource, texture, None)),
            to_device(np.zeros(500, np.float32)),
        )
        launch(f, 2, 256, u64(int(t)), u64(to_device(x)), u64(to_device(y)), u64(out), i32(500))
        np.testing.assert_allclose(
            to_host(out, x), sample_texture(a, x, y, linear), rtol=1e-5, atol=1e-2 if linear else 0
        )
        ok(cu.cuTexObjectDestroy(t))


def sample_texture(a: Array, x: Array, y: Array, linear: bool) -> Any:
    """Return the values that a 16 x 24 texture has at unnormalised coordinates."""

    def at(i: Array, j: Array) -> Any:
        return a[np.clip(j, 0, 15), np.clip(i, 0, 23)]

    if not linear:
        return at(np.floor(x).astype(int), np.floor(y).astype(int))
    xb, yb = x - 0.5, y - 0.5
    i, j = np.floor(xb).astype(int), np.floor(yb).astype(int)
    u, v = xb - i, yb - j
    return (
        (1 - u) * (1 - v) * at(i, j)
        + u * (1 - v) * at(i + 1, j)
        + (1 - u) * v * at(i, j + 1)
        + u * v * at(i + 1, j + 1)
    )


def cooperative() -> None:
    create_context()
    module, n = compile_module(COOPERATIVE), 8 * 64
    data = RNG.integers(0, 1000, n).astype(np.int32)
    p, f = to_device(data), get_function(module, "steps")
    pointers, kept = pack_arguments(u64(p), i32(n))
    assert len(kept) == 2
    ok(cu.cuLaunchCooperativeKernel(f, 8, 1, 1, 64, 1, 1, 0, 0, ctypes.addressof(pointers)))
    expected = data.copy()
    for _ in range(5):
        expected = np.roll(expected, -37) + 1
    np.testing.assert_array_equal(to_host(p, data), expected)
    assert (
        error_code(
            cu.cuLaunchCooperativeKernel(
                f, 100000, 1, 1, 64, 1, 1, 0, 0, ctypes.addressof(pointers)
            )
        )
        == 720
    )
    p = to_device(data[:128].copy())
    launch(get_function(module, "rotate"), 1, 128, u64(p), i32(3))  # barrier in a called function
    np.testing.assert_array_equal(to_host(p, data[:128]), np.roll(data[:128], -3))


def calls() -> None:
    create_context()
    module, which = compile_module(CALLS), RNG.integers(0, 100, 64).astype(np.int32)
    out = to_device(np.zeros(64, np.int32))
    launch(get_function(module, "calls"), 1, 64, u64(to_device(which)), u64(out))
    i = np.arange(64)
    np.testing.assert_array_equal(to_host(out, which), np.choose(which % 3, [i + 3, i - 3, i**3]))
    launch(get_function(module, "heap"), 1, 64, u64(out))
    np.testing.assert_array_equal(to_host(out, which), np.where(i & 1, i * 10, 10))


def assertion() -> None:
    create_context()
    launch(get_function(compile_module(ASSERT), "check"), 1, 1, i32(7))
    assert error_code(cu.cuCtxSynchronize()) == 710
    assert error_code(cu.cuCtxSynchronize()) == 710  # the error is sticky


def cub() -> None:
    create_context()
    data = RNG.integers(0, 1 << 20, 512).astype(np.int32)
    total, scan, keys, warps = (
        to_device(np.zeros(1, np.int32)),
        to_device(np.zeros(128, np.int32)),
        to_device(np.zeros(512, np.uint32)),
        to_device(np.zeros(4, np.int32)),
    )
    launch(
        get_function(compile_module(CUB), "block"),
        1,
        128,
        u64(to_device(data)),
        u64(total),
        u64(scan),
        u64(keys),
        u64(warps),
    )
    assert to_host(total, data[:1])[0] == data[:128].sum()
    np.testing.assert_array_equal(to_host(scan, data[:128]), np.cumsum(data[:128]))
    np.testing.assert_array_equal(to_host(keys, data.astype(np.uint32)), np.sort(data))
    np.testing.assert_array_equal(to_host(warps, data[:4]), data[:128].reshape(4, 32).max(1))


def barriers() -> None:
    create_context()
    module, data = compile_module(BARRIER), RNG.integers(0, 100, 96).astype(np.int32)
    p = to_device(data)
    launch(get_function(module, "rounds"), 1, 96, u64(p))
    expected = data.copy()
    for k in range(4):
        expected = expected[::-1] + k
    np.testing.assert_array_equal(to_host(p, data), expected)
    word = to_device(np.zeros(1, np.int32))
    launch(get_function(module, "flags"), 1, 32, u64(word))  # a thread of a warp waits for another
    assert to_host(word, np.zeros(1, np.int32))[0] == 2


def host_memory() -> None:
    create_context()
    f, a = get_function(compile_module(SCALE), "scale"), np.arange(3000, dtype=np.float32)
    ok(cu.cuMemHostRegister(a.ctypes.data, a.nbytes, 2))
    p = ok(cu.cuMemHostGetDevicePointer(a.ctypes.data, 0))
    launch(f, 12, 256, u64(int(p)), ctypes.c_float(2), i32(3000))
    ok(cu.cuCtxSynchronize())
    np.testing.assert_array_equal(a, np.arange(3000, dtype=np.float32) * 2)
    ok(cu.cuMemHostUnregister(a.ctypes.data))
    m = int(ok(cu.cuMemAllocManaged(4000, 1)))
    values = np.ctypeslib.as_array(ctypes.cast(m, ctypes.POINTER(ctypes.c_float)), (1000,))
    values[:] = 1
    launch(f, 4, 256, u64(m), ctypes.c_float(7), i32(1000))
    ok(cu.cuCtxSynchronize())
    assert (values == 7).all()
    launch(f, 12, 256, u64(a.ctypes.data), ctypes.c_float(2), i32(3000))  # no longer registered
    assert error_code(cu.cuCtxSynchronize()) == 700


def increment_shared_memory(raw: bytes, queue: multiprocessing.Queue[list[int]]) -> None:
    """Open memory of another process, send its values and increment them."""
    create_context()
    handle = cu.CUipcMemHandle()
    ctypes.memmove(handle.getPtr(), raw, 64)
    p = ok(cu.cuIpcOpenMemHandle(handle, 1))
    values = to_host(p, np.zeros(100, np.int32))
    ok(cu.cuMemcpyHtoD(p, (values + 1).ctypes.data, 400))
    ok(cu.cuIpcCloseMemHandle(p))
    queue.put(values.tolist())


def ipc() -> None:
    create_context()
    a = np.arange(100, dtype=np.int32)
    p = to_device(a)
    handle = ok(cu.cuIpcGetMemHandle(p))
    raw = ctypes.string_at(handle.getPtr(), 64)
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    child = spawn.Process(target=increment_shared_memory, args=(raw, queue))
    child.start()
    assert queue.get(timeout=60) == a.tolist()
    child.join()
    np.testing.assert_array_equal(to_host(p, a), a + 1)
    assert error_code(cu.cuIpcOpenMemHandle(handle, 1)) == 201  # as the exporting process


def fragments() -> None:
    create_context()
    module, k = compile_module(WMMA), 48
    a, b = (
        RNG.standard_normal((16, k)).astype(np.float16),
        RNG.standard_normal((k, 16)).astype(np.float16),
    )
    c = to_device(np.zeros((16, 16), np.float32))
    launch(
        get_function(module, "tile"),
        1,
        32,
        u64(to_device(a)),
        u64(to_device(np.ascontiguousarray(b.T))),
        u64(c),
        i32(k),
    )
    np.testing.assert_allclose(
        to_host(c, np.zeros((16, 16), np.float32)),
        2 * (a.astype(np.float64) @ b.astype(np.float64) + 1),
        rtol=1e-4,
        atol=1e-3,
    )
    x, y = (
        RNG.integers(-128, 128, (32, 16)).astype(np.int8),
        RNG.integers(-128, 128, (16, 8)).astype(np.int8),
    )
    d = to_device(np.zeros((8, 32), np.int32))
    launch(
        get_function(module, "bytes"),
        1,
        32,
        u64(to_device(np.ascontiguousarray(x.T))),
        u64(to_device(y)),
        u64(d),
    )
    np.testing.assert_array_equal(
        to_host(d, np.zeros((8, 32), np.int32)).T, x.astype(np.int32) @ y.astype(np.int32)
    )


PROGRAMS = {
    p.__name__: p
    for p in (
        graphs,
        pools,
        stream_memory,
        rows_and_planes,
        textures,
        cooperative,
        calls,
        assertion,
        cub,
        barriers,
        host_memory,
        ipc,
        fragments,
    )
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
