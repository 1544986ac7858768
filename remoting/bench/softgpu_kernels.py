"""One process of `./bench softgpu`: kernels from NVRTC on the software GPU, and NumPy."""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from cuda.bindings import nvrtc

SOURCE = r"""
extern "C" {
__global__ void empty() {}
__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
__global__ void fused(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float x = a[i], y = b[i];
    c[i] = sqrtf(x * x + y * y) * 0.5f + fabsf(x - y) / (y + 3.0f);
  }
}
__global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float x[16][16], y[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    x[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    y[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += x[threadIdx.y][k] * y[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
__global__ void tree_reduce(const float* a, const float* b, float* c, int n) {
  __shared__ float part[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  part[threadIdx.x] = i < n ? a[i] : 0;
  __syncthreads();
  for (int s = 128; s >= 32; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    float v = part[threadIdx.x];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x == 0) c[blockIdx.x] = v;
  }
}
}
"""
Array = np.ndarray[Any, Any]
SIZE, MATRIX, REDUCED, LAUNCHES, BEST_OF = 16 << 20, 512, 4 << 20, 2000, 5


def compile_ptx() -> bytes:
    _, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"bench.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, 1, [b"-arch=compute_90"])
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx: bytes = b" " * size
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx


class Gpu:
    """Device 0 through the driver API."""

    def __init__(self) -> None:
        self.kept: list[tuple[Any, ...]] = []
        """Kernel arguments, which must outlive their launcher."""
        self.cuda = ctypes.CDLL("libcuda.so.1")
        context, self.module = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        if code := getattr(self.cuda, name)(*arguments):
            raise RuntimeError(f"{name} returned {code}")

    def load(self, ptx: bytes) -> None:
        self.call("cuModuleLoadData", ctypes.byref(self.module), ptx)

    def upload(self, data: Array) -> ctypes.c_uint64:
        p = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(p), ctypes.c_size_t(data.nbytes))
        self.call(
            "cuMemcpyHtoD_v2", p, data.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(data.nbytes)
        )
        return p

    def download(self, p: ctypes.c_uint64, data: Array) -> None:
        self.call(
            "cuMemcpyDtoH_v2", data.ctypes.data_as(ctypes.c_void_p), p, ctypes.c_size_t(data.nbytes)
        )

    def launcher(
        self, name: str, grid: tuple[int, int], block: tuple[int, int], *arguments: Any
    ) -> Callable[[], None]:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        params = (ctypes.c_void_p * max(1, len(arguments)))(
            *(ctypes.addressof(a) for a in arguments)
        )

        def launch() -> None:
            self.call(
                "cuLaunchKernel",
                function,
                grid[0],
                grid[1],
                1,
                block[0],
                block[1],
                1,
                0,
                None,
                params,
                None,
            )

        self.kept.append(arguments)
        return launch

    def wait(self) -> None:
        self.call("cuCtxSynchronize")


def best_ms(work: Callable[[], object]) -> float:
    """Return the shortest duration of several runs in milliseconds."""
    times = []
    for _ in range(BEST_OF):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times) * 1e3


class Bench:
    """Measures kernels on two inputs and NumPy on the same. Checks that the results are equal."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.gpu = Gpu()
        self.a, self.b = rng.random(SIZE, dtype=np.float32), rng.random(SIZE, dtype=np.float32)
        self.c = np.empty_like(self.a)
        self.gpu.load(compile_ptx())
        self.pointers = [self.gpu.upload(data) for data in (self.a, self.b, self.c)]

    def kernel(
        self, name: str, grid: tuple[int, int], block: tuple[int, int], size: int
    ) -> Callable[[], None]:
        return self.gpu.launcher(name, grid, block, *self.pointers, ctypes.c_int(size))

    def run_ms(self, launch: Callable[[], None], result: Array) -> float:
        """Return the shortest duration in milliseconds, and copy the kernel's output."""
        launch()
        self.gpu.wait()
        milliseconds = best_ms(lambda: (launch(), self.gpu.wait()))
        self.gpu.download(self.pointers[2], result)
        return milliseconds

    def first_launch(self) -> dict[str, float]:
        started = time.perf_counter()
        self.kernel("vector_add", (1, 1), (256, 1), 0)()
        self.gpu.wait()
        return {"first_launch_ms": (time.perf_counter() - started) * 1e3}

    def vector_add(self) -> dict[str, float]:
        a, b, c = self.a, self.b, self.c
        gpu_ms = self.run_ms(self.kernel("vector_add", (SIZE // 256, 1), (256, 1), SIZE), c)
        assert np.array_equal(c, a + b)
        numpy_ms = best_ms(lambda: np.add(a, b, out=c))
        return {"vector_add_ms": gpu_ms, "vector_add_numpy_ms": numpy_ms}

    def fused(self) -> dict[str, float]:
        a, b = self.a, self.b

        def in_numpy() -> Array:
            length = np.sqrt(a * a + b * b)
            result: Array = length * np.float32(0.5) + np.abs(a - b) / (b + np.float32(3))
            return result

        gpu_ms = self.run_ms(self.kernel("fused", (SIZE // 256, 1), (256, 1), SIZE), self.c)
        assert np.allclose(self.c, in_numpy(), rtol=1e-6)
        return {"fused_ms": gpu_ms, "fused_numpy_ms": best_ms(in_numpy)}

    def matmul(self) -> dict[str, float]:
        x, y = (data[: MATRIX * MATRIX].reshape(MATRIX, MATRIX) for data in (self.a, self.b))
        z = np.empty((MATRIX, MATRIX), np.float32)
        kernel = self.kernel("matmul", (MATRIX // 16, MATRIX // 16), (16, 16), MATRIX)
        gpu_ms = self.run_ms(kernel, z)
        assert np.allclose(z, x @ y, rtol=1e-4)
        return {"matmul_ms": gpu_ms, "matmul_numpy_ms": best_ms(lambda: np.matmul(x, y, out=z))}

    def tree_reduce(self) -> dict[str, float]:
        a, parts = self.a[:REDUCED], np.empty(REDUCED // 256, np.float32)
        kernel = self.kernel("tree_reduce", (REDUCED // 256, 1), (256, 1), REDUCED)
        gpu_ms = self.run_ms(kernel, parts)
        assert np.allclose(parts.sum(), a.sum(), rtol=1e-4)
        return {"tree_reduce_ms": gpu_ms, "tree_reduce_numpy_ms": best_ms(lambda: a.sum())}

    def launch_overhead(self) -> dict[str, float]:
        launch_empty = self.gpu.launcher("empty", (1, 1), (32, 1))
        launch_empty()
        self.gpu.wait()
        started = time.perf_counter()
        for _ in range(LAUNCHES):
            launch_empty()
        self.gpu.wait()
        return {"launch_overhead_us": (time.perf_counter() - started) * 1e6 / LAUNCHES}


def measure() -> dict[str, float]:
    bench = Bench()
    return (
        bench.first_launch()
        | bench.vector_add()
        | bench.fused()
        | bench.matmul()
        | bench.tree_reduce()
        | bench.launch_overhead()
    )


if __name__ == "__main__":
    json.dump(measure(), sys.stdout)
