"""Programs on cuda-python and NVRTC, each for one part of the driver. `python -m tests.softgpu.cuda_programs NAME` exits 0 when its numbers are right."""

# mypy: ignore-errors
from __future__ import annotations

import ctypes
import multiprocessing
import sys
from pathlib import Path

import numpy as np
import nvidia
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc

RNG = np.random.default_rng(3)


def ok(result):
    error, *values = result
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else values


def code(result) -> int:
    return int(result[0])


def begin():
    ok(cu.cuInit(0))
    context = ok(cu.cuDevicePrimaryCtxRetain(0))
    ok(cu.cuCtxSetCurrent(context))
    return context


def compiled(source: str, *options: str):
    include = [
        f"-I{p}"
        for base in nvidia.__path__
        for p in (*Path(base).glob("*/include"), *Path(base).glob("*/include/cccl"))
    ]
    program = ok(nvrtc.nvrtcCreateProgram(source.encode(), b"program.cu", 0, [], []))
    arguments = [
        o.encode()
        for o in ("-arch=compute_90", "-default-device", "-std=c++17", *include, *options)
    ]
    if code(nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)):
        log = b" " * ok(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise SystemExit(log.decode())
    ptx = b" " * ok(nvrtc.nvrtcGetPTXSize(program))
    ok(nvrtc.nvrtcGetPTX(program, ptx))
    return ok(cu.cuModuleLoadData(ptx))


def function(module, name: str):
    return ok(cu.cuModuleGetFunction(module, name.encode()))


def up(a: np.ndarray) -> int:
    p = ok(cu.cuMemAlloc(a.nbytes))
    ok(cu.cuMemcpyHtoD(p, a.ctypes.data, a.nbytes))
    return int(p)


def down(p: int, like: np.ndarray) -> np.ndarray:
    out = np.empty_like(like)
    ok(cu.cuMemcpyDtoH(out.ctypes.data, p, out.nbytes))
    return out


def packed(*arguments):
    """kernelParams of ctypes values; the caller keeps the second part alive."""
    return (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments)), arguments


def launch(f, grid: int, block: int, *arguments, stream=0, shared: int = 0) -> None:
    pointers, kept = packed(*arguments)
    ok(
        cu.cuLaunchKernel(
            f, grid, 1, 1, block, 1, 1, shared, stream, ctypes.addressof(pointers) if kept else 0, 0
        )
    )


u64, i32 = ctypes.c_uint64, ctypes.c_int
SCALE = 'extern "C" __global__ void scale(float* p, float k, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] *= k; }'


def graphs() -> None:
    begin()
    f, stream, a = (
        function(compiled(SCALE), "scale"),
        ok(cu.cuStreamCreate(1)),
        np.arange(1000, dtype=np.float32),
    )
    p, out = up(a), np.zeros_like(a)
    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    launch(f, 4, 256, u64(p), ctypes.c_float(3), i32(1000), stream=stream)
    assert code(cu.cuMemAlloc(64)) == 900  # forbidden meanwhile: the capture is lost
    assert code(cu.cuStreamEndCapture(stream)) == 901
    np.testing.assert_array_equal(down(p, a), a)
    ok(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    other, fork, join = ok(cu.cuStreamCreate(1)), ok(cu.cuEventCreate(0)), ok(cu.cuEventCreate(0))
    launch(f, 4, 256, u64(p), ctypes.c_float(3), i32(1000), stream=stream)
    ok(cu.cuEventRecord(fork, stream))
    ok(cu.cuStreamWaitEvent(other, fork, 0))
    launch(f, 4, 256, u64(p), ctypes.c_float(2), i32(1000), stream=other)
    ok(cu.cuEventRecord(join, other))
    assert code(cu.cuStreamEndCapture(stream)) == 904  # the fork was not joined
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
    np.testing.assert_array_equal(down(p, a), a)  # nothing ran
    executable = ok(cu.cuGraphInstantiate(graph, 0))
    for _ in range(2):
        ok(cu.cuGraphLaunch(executable, stream))
    ok(cu.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(out, a * 36)
    explicit_nodes(p, a)


def explicit_nodes(p: int, a: np.ndarray) -> None:
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
    np.testing.assert_array_equal(down(p, a)[:500], np.full(500, 4, np.float32))
    assert code(cu.cuGraphAddDependencies(graph, [empty], [empty], None, 1)) != 0


def pools() -> None:
    begin()
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
    assert code(cu.cuMemFreeAsync(p, stream)) == 1


def stream_memory() -> None:
    begin()
    first, second, word = (
        ok(cu.cuStreamCreate(1)),
        ok(cu.cuStreamCreate(1)),
        up(np.zeros(4, np.uint32)),
    )
    ok(cu.cuStreamWaitValue32(first, word, 5, 0))
    ok(cu.cuStreamWriteValue32(first, word + 4, 9, 0))
    assert code(cu.cuStreamQuery(first)) == 600
    ok(cu.cuStreamWriteValue32(second, word, 5, 0))
    ok(cu.cuStreamSynchronize(first))
    assert down(word, np.zeros(4, np.uint32)).tolist() == [5, 9, 0, 0]


def rows_and_planes() -> None:
    begin()
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


TEXTURE = """extern "C" __global__ void read(cudaTextureObject_t t, const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = tex2D<float>(t, x[i], y[i]); }"""


def textures() -> None:
    begin()
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
    f = function(compiled(TEXTURE), "read")
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
        t, out = ok(cu.cuTexObjectCreate(resource, texture, None)), up(np.zeros(500, np.float32))
        launch(f, 2, 256, u64(int(t)), u64(up(x)), u64(up(y)), u64(out), i32(500))
        np.testing.assert_allclose(
            down(out, x), sampled(a, x, y, linear), rtol=1e-5, atol=1e-2 if linear else 0
        )
        ok(cu.cuTexObjectDestroy(t))


def sampled(a: np.ndarray, x: np.ndarray, y: np.ndarray, linear: bool) -> np.ndarray:
    def at(i, j):
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


COOPERATIVE = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void steps(int* data, int n) {
  cg::grid_group grid = cg::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x, next = (i + 37) % n;
  for (int k = 0; k < 5; ++k) { int v = data[next]; grid.sync(); data[i] = v + 1; grid.sync(); } }
__device__ __noinline__ int around(int v, int* shared) { shared[threadIdx.x] = v; __syncthreads(); int r = shared[(threadIdx.x + 1) % blockDim.x]; __syncthreads(); return r; }
extern "C" __global__ void rotate(int* data, int times) { __shared__ int s[128]; int v = data[threadIdx.x]; for (int k = 0; k < times; ++k) v = around(v, s); data[threadIdx.x] = v; }
"""


def cooperative() -> None:
    begin()
    module, n = compiled(COOPERATIVE), 8 * 64
    data = RNG.integers(0, 1000, n).astype(np.int32)
    p, f = up(data), function(module, "steps")
    pointers, kept = packed(u64(p), i32(n))
    assert len(kept) == 2
    ok(cu.cuLaunchCooperativeKernel(f, 8, 1, 1, 64, 1, 1, 0, 0, ctypes.addressof(pointers)))
    expected = data.copy()
    for _ in range(5):
        expected = np.roll(expected, -37) + 1
    np.testing.assert_array_equal(down(p, data), expected)
    assert (
        code(
            cu.cuLaunchCooperativeKernel(
                f, 100000, 1, 1, 64, 1, 1, 0, 0, ctypes.addressof(pointers)
            )
        )
        == 720
    )
    p = up(data[:128].copy())
    launch(function(module, "rotate"), 1, 128, u64(p), i32(3))  # a barrier in a called function
    np.testing.assert_array_equal(down(p, data[:128]), np.roll(data[:128], -3))


CALLS = """typedef int (*Op)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int sub(int a, int b) { return a - b; }
__device__ __noinline__ int power(int a, int b) { return b <= 0 ? 1 : a * power(a, b - 1); }
__device__ Op table[3] = {add, sub, power};
struct Base { __device__ virtual int f(int x) { return x; } };
struct Derived : Base { int k; __device__ Derived(int k) : k(k) {} __device__ int f(int x) override { return x * k; } };
extern "C" __global__ void calls(const int* which, int* out) { int i = threadIdx.x; out[i] = table[which[i] % 3](i, 3); }
extern "C" __global__ void heap(int* out) { int i = threadIdx.x; Base* b = i & 1 ? new Derived(i) : new Base(); int* p = (int*)malloc(40); p[9] = b->f(10); out[i] = p[9]; free(p); delete b; }
"""


def calls() -> None:
    begin()
    module, which = compiled(CALLS), RNG.integers(0, 100, 64).astype(np.int32)
    out = up(np.zeros(64, np.int32))
    launch(function(module, "calls"), 1, 64, u64(up(which)), u64(out))
    i = np.arange(64)
    np.testing.assert_array_equal(down(out, which), np.choose(which % 3, [i + 3, i - 3, i**3]))
    launch(function(module, "heap"), 1, 64, u64(out))
    np.testing.assert_array_equal(down(out, which), np.where(i & 1, i * 10, 10))


ASSERT = 'extern "C" __global__ void check(int n) { assert(n < 5); }'


def assertion() -> None:
    begin()
    launch(function(compiled(ASSERT), "check"), 1, 1, i32(7))
    assert code(cu.cuCtxSynchronize()) == 710
    assert code(cu.cuCtxSynchronize()) == 710  # and it stays


CUB = """#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
extern "C" __global__ void block(const int* in, int* sum, int* scan, unsigned* sorted, int* warps) {
  typedef cub::BlockReduce<int, 128> Reduce; typedef cub::BlockScan<int, 128> Scan; typedef cub::BlockRadixSort<unsigned, 128, 4> Sort; typedef cub::WarpReduce<int> Warp;
  __shared__ union { typename Reduce::TempStorage r; typename Scan::TempStorage s; typename Sort::TempStorage o; typename Warp::TempStorage w[4]; } t;
  int v = in[threadIdx.x], total = Reduce(t.r).Sum(v), out; __syncthreads();
  if (threadIdx.x == 0) *sum = total;
  Scan(t.s).InclusiveSum(v, out); scan[threadIdx.x] = out; __syncthreads();
  unsigned keys[4]; for (int i = 0; i < 4; ++i) keys[i] = (unsigned)in[threadIdx.x * 4 + i];
  Sort(t.o).Sort(keys); for (int i = 0; i < 4; ++i) sorted[threadIdx.x * 4 + i] = keys[i]; __syncthreads();
  int most = Warp(t.w[threadIdx.x / 32]).Reduce(v, cuda::maximum<>{}); if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = most; }
"""


def cub() -> None:
    begin()
    data = RNG.integers(0, 1 << 20, 512).astype(np.int32)
    total, scan, keys, warps = (
        up(np.zeros(1, np.int32)),
        up(np.zeros(128, np.int32)),
        up(np.zeros(512, np.uint32)),
        up(np.zeros(4, np.int32)),
    )
    launch(
        function(compiled(CUB), "block"),
        1,
        128,
        u64(up(data)),
        u64(total),
        u64(scan),
        u64(keys),
        u64(warps),
    )
    assert down(total, data[:1])[0] == data[:128].sum()
    np.testing.assert_array_equal(down(scan, data[:128]), np.cumsum(data[:128]))
    np.testing.assert_array_equal(down(keys, data.astype(np.uint32)), np.sort(data))
    np.testing.assert_array_equal(down(warps, data[:4]), data[:128].reshape(4, 32).max(1))


BARRIER = """#include <cuda/barrier>
#include <cuda/atomic>
extern "C" __global__ void rounds(int* data) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar; __shared__ int s[96];
  if (threadIdx.x == 0) init(&bar, blockDim.x);
  __syncthreads();
  for (int k = 0; k < 4; ++k) { s[threadIdx.x] = data[threadIdx.x]; bar.arrive_and_wait(); data[threadIdx.x] = s[95 - threadIdx.x] + k; bar.arrive_and_wait(); } }
extern "C" __global__ void flags(int* word) {
  cuda::atomic_ref<int, cuda::thread_scope_device> w(*word);
  if (threadIdx.x == 0) { while (w.load(cuda::memory_order_acquire) == 0) {} w.store(2, cuda::memory_order_release); }
  else if (threadIdx.x == 1) w.store(1, cuda::memory_order_release); }
"""


def barriers() -> None:
    begin()
    module, data = compiled(BARRIER), RNG.integers(0, 100, 96).astype(np.int32)
    p = up(data)
    launch(function(module, "rounds"), 1, 96, u64(p))
    expected = data.copy()
    for k in range(4):
        expected = expected[::-1] + k
    np.testing.assert_array_equal(down(p, data), expected)
    word = up(np.zeros(1, np.int32))
    launch(function(module, "flags"), 1, 32, u64(word))  # one thread of a warp waits for another
    assert down(word, np.zeros(1, np.int32))[0] == 2


def host_memory() -> None:
    begin()
    f, a = function(compiled(SCALE), "scale"), np.arange(3000, dtype=np.float32)
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
    assert code(cu.cuCtxSynchronize()) == 700


def other_process(raw: bytes, queue) -> None:
    begin()
    handle = cu.CUipcMemHandle()
    ctypes.memmove(handle.getPtr(), raw, 64)
    p = ok(cu.cuIpcOpenMemHandle(handle, 1))
    seen = down(p, np.zeros(100, np.int32))
    ok(cu.cuMemcpyHtoD(p, (seen + 1).ctypes.data, 400))
    ok(cu.cuIpcCloseMemHandle(p))
    queue.put(seen.tolist())


def ipc() -> None:
    begin()
    a = np.arange(100, dtype=np.int32)
    p = up(a)
    handle = ok(cu.cuIpcGetMemHandle(p))
    raw = ctypes.string_at(handle.getPtr(), 64)
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    child = spawn.Process(target=other_process, args=(raw, queue))
    child.start()
    assert queue.get(timeout=60) == a.tolist()
    child.join()
    np.testing.assert_array_equal(down(p, a), a + 1)
    assert code(cu.cuIpcOpenMemHandle(handle, 1)) == 400  # not in the process that made it


WMMA = """#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void tile(const half* a, const half* b, float* c, int k) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa; wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc; wmma::fill_fragment(fc, 1.0f);
  for (int i = 0; i < k; i += 16) { wmma::load_matrix_sync(fa, a + i, k); wmma::load_matrix_sync(fb, b + i, k); wmma::mma_sync(fc, fa, fb, fc); }
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] *= 2;
  wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major); }
extern "C" __global__ void bytes(const signed char* a, const signed char* b, int* c) {
  wmma::fragment<wmma::matrix_a, 32, 8, 16, signed char, wmma::col_major> fa; wmma::fragment<wmma::matrix_b, 32, 8, 16, signed char, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 32, 8, 16, int> fc; wmma::fill_fragment(fc, 0);
  wmma::load_matrix_sync(fa, a, 32); wmma::load_matrix_sync(fb, b, 8); wmma::mma_sync(fc, fa, fb, fc); wmma::store_matrix_sync(c, fc, 32, wmma::mem_col_major); }
"""


def fragments() -> None:
    begin()
    module, k = compiled(WMMA), 48
    a, b = (
        RNG.standard_normal((16, k)).astype(np.float16),
        RNG.standard_normal((k, 16)).astype(np.float16),
    )
    c = up(np.zeros((16, 16), np.float32))
    launch(
        function(module, "tile"),
        1,
        32,
        u64(up(a)),
        u64(up(np.ascontiguousarray(b.T))),
        u64(c),
        i32(k),
    )
    np.testing.assert_allclose(
        down(c, np.zeros((16, 16), np.float32)),
        2 * (a.astype(np.float64) @ b.astype(np.float64) + 1),
        rtol=1e-4,
        atol=1e-3,
    )
    x, y = (
        RNG.integers(-128, 128, (32, 16)).astype(np.int8),
        RNG.integers(-128, 128, (16, 8)).astype(np.int8),
    )
    d = up(np.zeros((8, 32), np.int32))
    launch(function(module, "bytes"), 1, 32, u64(up(np.ascontiguousarray(x.T))), u64(up(y)), u64(d))
    np.testing.assert_array_equal(
        down(d, np.zeros((8, 32), np.int32)).T, x.astype(np.int32) @ y.astype(np.int32)
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
