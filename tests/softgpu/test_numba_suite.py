"""Some modules of the test suite in the numba-cuda wheel; `./test --long numba_cuda` runs all."""

from __future__ import annotations

import pytest

from tests.suites.numba_cuda import run, unexpected_results

MODULES = [
    "cudadrv.test_cuda_driver",
    "cudapy.test_atomics",
    "cudapy.test_cooperative_groups",
    "cudapy.test_warp_ops",
    "cudapy.test_fp8_bindings",
    "nrt.test_nrt_refct",
]


@pytest.mark.parametrize("module", MODULES)
def test_module_of_numba_suite_passes(module: str) -> None:
    name = f"numba.cuda.tests.{module}"
    report = run([name], 1)
    assert report["counts"]["passed"] > 0, report
    assert unexpected_results(report, [name]) == [], report["not_passed"]
