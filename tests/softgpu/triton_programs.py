"""Kernels from Triton's tutorials, launched by Triton's compiled launcher without torch.

Device and stream come from cuda-python. `python -m tests.softgpu.triton_programs NAME` exits with 0
if the results match NumPy's. Parameters of kernels have no annotations, because Triton interprets
them.
"""

from __future__ import annotations

import sys

import numpy as np
import triton
import triton.language as tl
from cuda.bindings import driver as cuda
from triton.backends.nvidia.driver import CudaDriver

from tests.softgpu.cuda_python import Array, ok

RNG = np.random.default_rng(7)


class SoftwareDriver(CudaDriver):
    """Triton's driver with device and stream from cuda-python instead of torch."""

    def __init__(self) -> None:
        super().__init__()
        ok(cuda.cuInit(0))
        self.device = ok(cuda.cuDeviceGet(0))
        self.context = ok(cuda.cuDevicePrimaryCtxRetain(self.device))
        ok(cuda.cuCtxSetCurrent(self.context))
        self.stream = ok(cuda.cuStreamCreate(0))
        self.get_current_device = lambda: int(self.device)
        self.get_current_stream = lambda _: int(self.stream)


class Tensor:
    """Device memory with the attributes that Triton requires: `data_ptr()` and `dtype`."""

    def __init__(self, values: Array, dtype: str = "") -> None:
        self.values = np.ascontiguousarray(values)
        self.dtype = dtype or str(values.dtype)
        self.address = int(ok(cuda.cuMemAlloc(max(values.nbytes, 1))))
        ok(cuda.cuMemcpyHtoD(self.address, self.values.ctypes.data, values.nbytes))

    def data_ptr(self) -> int:
        return self.address

    def numpy(self) -> Array:
        ok(cuda.cuStreamSynchronize(triton.runtime.driver.active.stream))
        out = np.empty_like(self.values)
        ok(cuda.cuMemcpyDtoH(out.ctypes.data, self.address, out.nbytes))
        return out


def bfloat16(values: Array) -> Array:
    """Return the nearest bfloat16 bits of float32 values as uint16."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def widen_bfloat16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def vector_add() -> None:
    x, y = RNG.random(98432, dtype=np.float32), RNG.random(98432, dtype=np.float32)
    out = Tensor(np.zeros_like(x))
    add_kernel[(triton.cdiv(x.size, 1024),)](Tensor(x), Tensor(y), out, x.size, BLOCK=1024)
    np.testing.assert_array_equal(out.numpy(), x + y)


@triton.jit
def softmax_kernel(out, x, stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        at = tl.arange(0, BLOCK)
        inside = at < columns
        v = tl.load(x + row * stride + at, mask=inside, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * stride + at, e / tl.sum(e, axis=0), mask=inside)


def softmax() -> None:
    x = RNG.standard_normal((183, 781), dtype=np.float32)
    out = Tensor(np.zeros_like(x))
    softmax_kernel[(16,)](out, Tensor(x), 781, 183, 781, BLOCK=1024, STAGES=2, num_warps=8)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), e / e.sum(1, keepdims=True), rtol=2e-6, atol=1e-8)


@triton.jit
def tile_of_program(M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    pid, across, down = tl.program_id(0), tl.cdiv(N, BN), tl.cdiv(M, BM)
    group = pid // (GROUP * across)
    rows = min(down - group * GROUP, GROUP)
    return group * GROUP + pid % (GROUP * across) % rows, pid % (GROUP * across) // rows


@triton.jit
def matmul_kernel(
    a,
    b,
    c,
    M,
    N,
    K,
    am,
    ak,
    bk,
    bn,
    cm,
    cn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    LEAKY: tl.constexpr,
):
    m, n = tile_of_program(M, N, BM, BN, GROUP)
    at_m, at_n = (m * BM + tl.arange(0, BM)) % M, (n * BN + tl.arange(0, BN)) % N
    at_k = tl.arange(0, BK)
    pa = a + at_m[:, None] * am + at_k[None, :] * ak
    pb = b + at_k[:, None] * bk + at_n[None, :] * bn
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        va = tl.load(pa, mask=at_k[None, :] < K - k * BK, other=0.0)
        vb = tl.load(pb, mask=at_k[:, None] < K - k * BK, other=0.0)
        sums = tl.dot(va, vb, sums)
        pa += BK * ak
        pb += BK * bk
    if LEAKY:
        sums = tl.where(sums >= 0, sums, 0.01 * sums)
    out_m, out_n = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    tl.store(
        c + out_m[:, None] * cm + out_n[None, :] * cn,
        sums.to(c.dtype.element_ty),
        mask=(out_m[:, None] < M) & (out_n[None, :] < N),
    )


def multiply(
    a: Tensor, b: Tensor, out: Tensor, shape: tuple[int, int, int], leaky: bool = False
) -> Array:
    m, n, k = shape
    grid = (triton.cdiv(m, 64) * triton.cdiv(n, 64),)
    matmul_kernel[grid](
        a,
        b,
        out,
        m,
        n,
        k,
        k,
        1,
        n,
        1,
        n,
        1,
        BM=64,
        BN=64,
        BK=32,
        GROUP=4,
        LEAKY=leaky,
        num_stages=3,
    )
    return out.numpy()


def matmul() -> None:
    shape = m, n, k = 200, 136, 97
    a, b = RNG.standard_normal((m, k)), RNG.standard_normal((k, n))
    exact = a.astype(np.float16).astype(np.float64) @ b.astype(np.float16).astype(np.float64)
    actual = multiply(
        Tensor(a.astype(np.float16)),
        Tensor(b.astype(np.float16)),
        Tensor(np.zeros((m, n), np.float16)),
        shape,
        leaky=True,
    )
    np.testing.assert_allclose(
        actual, np.where(exact >= 0, exact, 0.01 * exact), rtol=1e-3, atol=2e-3
    )
    exact = widen_bfloat16(bfloat16(a)).astype(np.float64) @ widen_bfloat16(bfloat16(b)).astype(
        np.float64
    )
    actual = multiply(
        Tensor(bfloat16(a), "bfloat16"),
        Tensor(bfloat16(b), "bfloat16"),
        Tensor(np.zeros((m, n), np.float32)),
        shape,
    )
    np.testing.assert_allclose(actual, exact, rtol=1e-4, atol=1e-4)
    exact = a @ b  # tf32 has ten mantissa bits for each factor
    actual = multiply(
        Tensor(a.astype(np.float32)),
        Tensor(b.astype(np.float32)),
        Tensor(np.zeros((m, n), np.float32)),
        shape,
    )
    np.testing.assert_allclose(actual, exact, rtol=2e-2, atol=5e-2)


@triton.jit
def layer_norm_forward(x, y, w, b, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + row * stride + at, mask=inside, other=0.0)
    mu = tl.sum(v, axis=0) / n
    centred = tl.where(inside, v - mu, 0.0)
    r = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    tl.store(mean + row, mu)
    tl.store(rstd + row, r)
    tl.store(
        y + row * stride + at,
        centred * r * tl.load(w + at, mask=inside) + tl.load(b + at, mask=inside),
        mask=inside,
    )


@triton.jit
def layer_norm_backward(
    dx, dy, dw, db, x, w, mean, rstd, lock, stride, n, GROUP: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(dy + row * stride + at, mask=inside, other=0.0)
    wv = tl.load(w + at, mask=inside, other=0.0)
    r = tl.load(rstd + row)
    xhat = tl.where(
        inside,
        (tl.load(x + row * stride + at, mask=inside, other=0.0) - tl.load(mean + row)) * r,
        0.0,
    )
    wg = wv * g
    c1, c2 = tl.sum(xhat * wg, axis=0) / n, tl.sum(wg, axis=0) / n
    tl.store(dx + row * stride + at, (wg - (xhat * c1 + c2)) * r, mask=inside)
    mine = row % GROUP
    dw, db, lock = dw + mine * n + at, db + mine * n + at, lock + mine
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(dw, tl.load(dw, mask=inside) + g * xhat, mask=inside)
    tl.store(db, tl.load(db, mask=inside) + g, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def layer_norm_gradients(
    x: Tensor, g: Array, w: Tensor, mean: Tensor, rstd: Tensor
) -> tuple[Array, Array, Array]:
    """Return the gradients of x, w and b for the gradient `g` of the result."""
    (rows, n), groups = g.shape, 8
    dx = Tensor(np.zeros_like(g))
    dw, db = (Tensor(np.zeros((groups, n), np.float32)) for _ in range(2))
    lock = Tensor(np.zeros(groups, np.int32))
    layer_norm_backward[(rows,)](
        dx, Tensor(g), dw, db, x, w, mean, rstd, lock, n, n, GROUP=groups, BLOCK=1024
    )
    return dx.numpy(), dw.numpy().sum(0), db.numpy().sum(0)


def layer_norm() -> None:
    rows, n, eps = 151, 700, 1e-5
    x, g = (
        RNG.standard_normal((rows, n), dtype=np.float32),
        RNG.standard_normal((rows, n), dtype=np.float32),
    )
    w, b = RNG.random(n, dtype=np.float32), RNG.random(n, dtype=np.float32)
    tx, tw, y, mean, rstd = (
        Tensor(x),
        Tensor(w),
        Tensor(np.zeros_like(x)),
        Tensor(np.zeros(rows, np.float32)),
        Tensor(np.zeros(rows, np.float32)),
    )
    layer_norm_forward[(rows,)](
        tx, y, tw, Tensor(b), mean, rstd, n, n, eps, BLOCK=1024, num_warps=4
    )
    x64 = x.astype(np.float64)
    mu, r = x64.mean(1, keepdims=True), 1 / np.sqrt(x64.var(1, keepdims=True) + eps)
    xhat = (x64 - mu) * r
    np.testing.assert_allclose(y.numpy(), xhat * w + b, rtol=1e-4, atol=1e-5)
    dx, dw, db = layer_norm_gradients(tx, g, tw, mean, rstd)
    wg = g.astype(np.float64) * w
    exact = (wg - xhat * (xhat * wg).mean(1, keepdims=True) - wg.mean(1, keepdims=True)) * r
    np.testing.assert_allclose(dx, exact, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(dw, (g * xhat).sum(0), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(db, g.sum(0), rtol=1e-3, atol=1e-3)


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, tl.load(x + at, mask=inside) / (1 - p), 0.0), mask=inside)


def philox(seed: int, n: int) -> Array:
    """Return the first word of Philox 4x32-10 (Salmon et al., 2011) for counters 0 to n - 1.

    The counter is in the first word, as in Triton's `rand`.
    """
    c = [np.arange(n, dtype=np.uint64), *(np.zeros(n, np.uint64) for _ in range(3))]
    low, k = np.uint64(0xFFFFFFFF), [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]),
            b & low,
            (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]),
            a & low,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    signed = c[0].astype(np.uint32).view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float64) * 4.6566127342e-10


def dropout() -> None:
    x, p = RNG.random(5000, dtype=np.float32), 0.3
    out = Tensor(np.zeros_like(x))
    dropout_kernel[(5,)](Tensor(x), out, x.size, p, 123, BLOCK=1024)
    np.testing.assert_allclose(
        out.numpy(), np.where(philox(123, x.size) > p, x / np.float32(1 - p), 0), rtol=1e-6
    )


PROGRAMS = {p.__name__: p for p in (vector_add, softmax, matmul, layer_norm, dropout)}

if __name__ == "__main__":
    triton.runtime.driver.set_active(SoftwareDriver())
    PROGRAMS[sys.argv[1]]()
