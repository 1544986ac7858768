"""An ordinary Numba program: python numba_demo.py saxpy | matmul | reduction"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from numba import cuda, float32

warnings.simplefilter("ignore")
TILE = 16


@cuda.jit
def saxpy_kernel(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit
def matmul_kernel(a, b, c):
    shared_a = cuda.shared.array((TILE, TILE), float32)
    shared_b = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    total = float32(0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        k = tile * TILE
        shared_a[ty, tx] = a[y, k + tx] if y < a.shape[0] and k + tx < a.shape[1] else 0
        shared_b[ty, tx] = b[k + ty, x] if x < b.shape[1] and k + ty < b.shape[0] else 0
        cuda.syncthreads()
        for j in range(TILE):
            total += shared_a[ty, j] * shared_b[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total


@cuda.reduce
def total_of(a, b):
    return a + b


def saxpy() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.random(100_003, dtype=np.float32), rng.random(100_003, dtype=np.float32)
    on_gpu = cuda.to_device(y)
    saxpy_kernel[(x.size + 255) // 256, 256](np.float32(2.5), cuda.to_device(x), on_gpu)
    np.testing.assert_allclose(on_gpu.copy_to_host(), np.float32(2.5) * x + y, rtol=1e-6)


def matmul() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random((130, 70), dtype=np.float32), rng.random((70, 90), dtype=np.float32)
    c = cuda.to_device(np.zeros((130, 90), np.float32))
    matmul_kernel[(6, 9), (TILE, TILE)](cuda.to_device(a), cuda.to_device(b), c)
    np.testing.assert_allclose(c.copy_to_host(), a @ b, rtol=1e-4)


def reduction() -> None:
    values = np.arange(100_003, dtype=np.float64)
    assert total_of(values) == values.sum()


if __name__ == "__main__":
    programs = {"saxpy": saxpy, "matmul": matmul, "reduction": reduction}
    chosen = sys.argv[1] if len(sys.argv) > 1 else "saxpy"
    if chosen not in programs:
        sys.exit(f'numba_demo: unknown program "{chosen}"; choose {", ".join(programs)}')
    programs[chosen]()
    print(f"{chosen} is correct")
