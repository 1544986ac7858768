"""Some modules of the numba-cuda wheel's suite; `./test --long suite numba-cuda` runs all."""

from __future__ import annotations

import pytest

from tests.suites import suite
from tests.suites.suite_definitions import SUITES
from tests.suites.suite_modes import direct

MODULES = [
    "cudadrv/test_cuda_driver.py",
    "cudapy/test_atomics.py",
    "cudapy/test_cooperative_groups.py",
    "cudapy/test_warp_ops.py",
    "cudapy/test_fp8_bindings.py",
    "nrt/test_nrt_refct.py",
]


@pytest.mark.long
@pytest.mark.parametrize("module", MODULES)
def test_module_of_numba_suite_passes(module: str) -> None:
    numba = SUITES["numba-cuda"]
    outcomes = suite.run(numba, numba.default_source(), direct, [f"tests/{module}"])
    assert suite.counts(outcomes)["passed"] > 0
    assert suite.problems("numba-cuda", "direct", outcomes, [module]) == []
