"""A part of the suite inside the numba-cuda wheel; all of it runs by `./test --long numba_cuda`."""

from __future__ import annotations

import pytest

from tests.suites.numba_cuda import run, surprises

MODULES = [
    "cudadrv.test_cuda_driver",
    "cudapy.test_atomics",
    "cudapy.test_cooperative_groups",
    "cudapy.test_warp_ops",
    "cudapy.test_fp8_bindings",
    "nrt.test_nrt_refct",
]


@pytest.mark.parametrize("module", MODULES)
def test_numba_cuda(module: str) -> None:
    name = f"numba.cuda.tests.{module}"
    report = run([name], 1)
    assert report["counts"]["passed"] > 0, report
    assert surprises(report, [name]) == [], report["not_passed"]
