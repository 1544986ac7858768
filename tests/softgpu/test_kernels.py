"""CUDA C++ kernels compiled with NVRTC: blocks, warps, atomics, calls, faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.bindings import nvrtc

from tests.softgpu.driver import run_in_child

SOURCE = r"""
extern "C" {
__global__ void block_sum(const float* x, float* out, unsigned n) {
  __shared__ float part[256];
  float v = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    v += x[i];
  part[threadIdx.x] = v;
  __syncthreads();
  for (unsigned s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
__global__ void volatile_sum(const int* x, int* out) {  // without __syncwarp, as before Volta
  __shared__ int part[64];
  volatile int* v = part;
  part[threadIdx.x] = x[threadIdx.x];
  part[threadIdx.x + 32] = x[threadIdx.x + 32];
  v[threadIdx.x] += v[threadIdx.x + 32];
  v[threadIdx.x] += v[threadIdx.x + 16];
  v[threadIdx.x] += v[threadIdx.x + 8];
  v[threadIdx.x] += v[threadIdx.x + 4];
  v[threadIdx.x] += v[threadIdx.x + 2];
  v[threadIdx.x] += v[threadIdx.x + 1];
  if (threadIdx.x == 0) *out = part[0];
}
__global__ void warp_sum(const int* x, int* out) {
  int v = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
  if ((threadIdx.x & 31) == 0) out[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = v;
}
__global__ void leaders(const int* x, int* out) {  // warp-aggregated increment under divergence
  int v = x[threadIdx.x];
  if (v % 3 == 0) {
    unsigned m = __activemask();
    int leader = __ffs(m) - 1, lane = threadIdx.x & 31;
    if (lane == leader) atomicAdd(out, __popc(m));
  }
  out[1 + threadIdx.x] = __ballot_sync(0xffffffff, v & 1);
}
__device__ __noinline__ long fib(int n) {
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
__global__ void recursion(const int* x, long* out) {
  out[threadIdx.x] = fib(x[threadIdx.x]);
}
__constant__ int table[8] = {1, 10, 100, 1000, 7, 70, 700, 7000};
__global__ void lookup(const int* x, int* out) {
  int local[8];
  for (int i = 0; i < 8; ++i) local[i] = table[i] + i;
  switch (x[threadIdx.x] & 7) {
    case 0: out[threadIdx.x] = -1; break;
    case 1: out[threadIdx.x] = -2; break;
    case 5: out[threadIdx.x] = -3; break;
    default: out[threadIdx.x] = local[x[threadIdx.x] & 7];
  }
}
__global__ void ticket_lock(int* lock, int* count) {  // lanes of a warp wait for each other
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *(volatile int*)count += 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
__global__ void dynamic_shared(int* out) {
  extern __shared__ int s[];
  s[threadIdx.x] = threadIdx.x * threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
__global__ void vote_barrier(int* out) {
  out[threadIdx.x] =
      __syncthreads_count(threadIdx.x % 3 == 0) * 10 + __syncthreads_or(threadIdx.x == 100);
}
__global__ void doubles(const double* x, double* out) {
  int i = threadIdx.x;
  out[i] = sin(x[i]) + exp(-x[i]) * log(x[i] + 1.0) + pow(x[i], 0.3);
}
__global__ void out_of_bounds(int* p) {
  p[1ull << 40] = 1;
}
__global__ void null_pointer(int* p) {
  *(int*)(8) = threadIdx.x;
}
__global__ void misaligned(char* p) {
  *(int*)(p + 1) = 1;
}
__global__ void shared_overrun(int* p) {
  __shared__ int s[4];
  volatile int* q = s;
  q[threadIdx.x + 4000] = 1;
  p[0] = q[3];
}
__global__ void trapped(int* p) {
  if (threadIdx.x == 3) __trap();
  p[0] = 1;
}
}
"""


@pytest.fixture(scope="module")
def ptx() -> str:
    error, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"test.cu", 0, [], [])
    assert error == 0
    (error,) = nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=compute_75"])
    if error:
        size = nvrtc.nvrtcGetProgramLogSize(program)[1]
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    size = nvrtc.nvrtcGetPTXSize(program)[1]
    text: bytes = b" " * size
    nvrtc.nvrtcGetPTX(program, text)
    return text.decode().rstrip("\0 ")


def run(
    ptx: str,
    folder: Path,
    kernel: str,
    grid: int,
    block: int,
    *arrays: np.ndarray[Any, Any],
    **more: Any,
) -> Any:
    return run_in_child(
        [
            {
                "ptx": ptx,
                "kernel": kernel,
                "grid": grid,
                "block": block,
                "arrays": list(arrays),
                **more,
            }
        ],
        folder,
    )[0]


def test_tree_reduction_in_shared_memory(ptx: str, tmp_path: Path) -> None:
    x = np.arange(10_007, dtype=np.float32)
    _, out = run(ptx, tmp_path, "block_sum", 7, 256, x, np.zeros(1, np.float32), scalars=(x.size,))
    assert out[0] == pytest.approx(x.sum(), rel=1e-5)


def test_shuffles_of_whole_warps(ptx: str, tmp_path: Path) -> None:
    x = np.arange(512, dtype=np.int32)
    assert (
        run(ptx, tmp_path, "warp_sum", 2, 256, x, np.zeros(16, np.int32))[1].tolist()
        == x.reshape(16, 32).sum(1).tolist()
    )


def test_warp_exchanges_values_through_volatile_shared_memory(ptx: str, tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.int32) ** 2
    assert run(ptx, tmp_path, "volatile_sum", 1, 32, x, np.zeros(1, np.int32))[1][0] == x.sum()


def test_lanes_reconverge_after_divergence(ptx: str, tmp_path: Path) -> None:
    x = np.random.default_rng(3).integers(0, 100, 96).astype(np.int32)
    out = run(ptx, tmp_path, "leaders", 1, 96, x, np.zeros(97, np.int32))[1]
    assert out[0] == (x % 3 == 0).sum()
    ballots = [sum(int(v & 1) << i for i, v in enumerate(x[w : w + 32])) for w in (0, 32, 64)]
    assert [int(v) & 0xFFFFFFFF for v in out[1:]] == [b for b in ballots for _ in range(32)]


def test_recursion(ptx: str, tmp_path: Path) -> None:
    assert run(
        ptx, tmp_path, "recursion", 1, 12, np.arange(12, dtype=np.int32), np.zeros(12, np.int64)
    )[1].tolist() == [
        0,
        1,
        1,
        2,
        3,
        5,
        8,
        13,
        21,
        34,
        55,
        89,
    ]


def test_constants_local_arrays_and_switches(ptx: str, tmp_path: Path) -> None:
    assert run(ptx, tmp_path, "lookup", 1, 8, np.arange(8, dtype=np.int32), np.zeros(8, np.int32))[
        1
    ].tolist() == [-1, -2, 102, 1003, 11, -3, 706, 7007]


def test_lanes_that_spin_on_each_other_make_progress(ptx: str, tmp_path: Path) -> None:
    assert (
        run(ptx, tmp_path, "ticket_lock", 4, 64, np.zeros(1, np.int32), np.zeros(1, np.int32))[1][0]
        == 256
    )


def test_dynamic_shared_memory(ptx: str, tmp_path: Path) -> None:
    assert run(ptx, tmp_path, "dynamic_shared", 1, 100, np.zeros(100, np.int32), shared=400)[
        0
    ].tolist() == [(99 - i) ** 2 for i in range(100)]


def test_reducing_barriers(ptx: str, tmp_path: Path) -> None:
    assert set(run(ptx, tmp_path, "vote_barrier", 1, 128, np.zeros(128, np.int32))[0].tolist()) == {
        43 * 10 + 1
    }


def test_double_precision_functions(ptx: str, tmp_path: Path) -> None:
    x = np.linspace(0.01, 30, 128)
    out = run(ptx, tmp_path, "doubles", 1, 128, x, np.zeros(128))[1]
    np.testing.assert_allclose(out, np.sin(x) + np.exp(-x) * np.log(x + 1) + x**0.3, rtol=1e-13)


@pytest.mark.parametrize(
    ("kernel", "code"),
    [
        ("out_of_bounds", 700),
        ("null_pointer", 700),
        ("misaligned", 716),
        ("shared_overrun", 700),
        ("trapped", 719),
    ],
)
def test_fault_causes_same_error_as_on_nvidia_gpu(
    ptx: str, tmp_path: Path, kernel: str, code: int
) -> None:
    assert run(ptx, tmp_path, kernel, 1, 32, np.zeros(16, np.int32))[:2] == ("error", code)
