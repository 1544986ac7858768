"""Small programs of Taichi, Dr.Jit, Halide and tinygrad, each with its own code generator.

`python -m tests.softgpu.front_end_programs NAME` exits with 0 if the results match NumPy's. Each
program imports its front end itself, because two of them cannot share a process. Taichi reads
annotations, so this module does not postpone them.
"""

import sys

import numpy as np

RNG = np.random.default_rng(11)


def taichi_histogram() -> None:
    """Count values with atomics, and reduce them in a second kernel."""
    import taichi as ti

    ti.init(arch=ti.cuda, offline_cache=False, device_memory_GB=0.25, log_level=ti.ERROR)
    assert ti.cfg.arch == ti.cuda
    values = RNG.integers(0, 16, 5000).astype(np.int32)
    numbers, counts = ti.field(ti.i32, shape=values.size), ti.field(ti.i32, shape=16)

    def count():  # type: ignore[no-untyped-def]  # Taichi accepts no annotation "None"
        for i in numbers:
            ti.atomic_add(counts[numbers[i]], 1)

    def total() -> ti.f32:
        result = 0.0
        for i in numbers:
            result += ti.sqrt(ti.cast(numbers[i], ti.f32))
        return result

    numbers.from_numpy(values)
    ti.kernel(count)()
    np.testing.assert_array_equal(counts.to_numpy(), np.bincount(values, minlength=16))
    np.testing.assert_allclose(ti.kernel(total)(), np.sqrt(values).sum(), rtol=1e-4)


def drjit_gradient() -> None:
    """Gather, scatter and differentiate."""
    import drjit
    from drjit.cuda.ad import Float, UInt32

    values = RNG.random(3000, dtype=np.float32)
    x = Float(values)
    drjit.enable_grad(x)
    order = UInt32(np.arange(3000, dtype=np.uint32)[::-1].copy())
    y = drjit.sin(drjit.gather(Float, x, order)) * 2
    drjit.backward(drjit.sum(y))
    np.testing.assert_allclose(y.numpy(), 2 * np.sin(values[::-1]), rtol=1e-5)
    np.testing.assert_allclose(drjit.grad(x).numpy(), 2 * np.cos(values), rtol=1e-5)
    sums = drjit.zeros(Float, 8)
    drjit.scatter_reduce(drjit.ReduceOp.Add, sums, drjit.detach(x), order % 8)
    exact = np.bincount(np.arange(3000)[::-1] % 8, values, minlength=8)
    np.testing.assert_allclose(sums.numpy(), exact, rtol=1e-4)


def halide_blur() -> None:
    """Blur an image in tiles; the first stage is in shared memory."""
    import halide as hl

    image = RNG.random((66, 66), dtype=np.float32)
    x, y, bx, by, tx, ty = (hl.Var(n) for n in ("x", "y", "bx", "by", "tx", "ty"))
    source, across, blurred = hl.Buffer(image), hl.Func("across"), hl.Func("blurred")
    across[x, y] = (source[x, y] + source[x + 1, y] + source[x + 2, y]) / 3
    blurred[x, y] = (across[x, y] + across[x, y + 1] + across[x, y + 2]) / 3
    blurred.gpu_tile(x, y, bx, by, tx, ty, 16, 8)
    across.compute_at(blurred, bx).gpu_threads(x, y)
    result = blurred.realize([64, 64], hl.get_host_target().with_feature(hl.TargetFeature.CUDA))
    result.copy_to_host()
    rows = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / 3
    exact = (rows[:-2] + rows[1:-1] + rows[2:]) / 3
    np.testing.assert_allclose(np.array(result), exact, rtol=1e-5)


def tinygrad_network() -> None:
    """Compute a layer with softmax, and its gradient."""
    from tinygrad import Tensor

    a, b = RNG.random((48, 32), dtype=np.float32), RNG.random((32, 24), dtype=np.float32)
    x, w = Tensor(a, device="CUDA"), Tensor(b, device="CUDA")
    y = (x @ w).softmax()
    e = np.exp(a @ b - (a @ b).max(1, keepdims=True))
    exact = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(y.numpy(), exact, rtol=1e-4)
    (gradient,) = y[:, 0].sum().gradient(w)
    ahead = -exact[:, :1] * exact
    ahead[:, 0] += exact[:, 0]
    np.testing.assert_allclose(gradient.numpy(), a.T @ ahead, rtol=1e-3, atol=1e-5)


PROGRAMS = {
    p.__name__: p for p in (taichi_histogram, drjit_gradient, halide_blur, tinygrad_network)
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
