"""Kernels that receive a tensor map of the driver by value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.encoded_maps import BIT_21


@pytest.mark.parametrize("cleared", [0, BIT_21])
def test_kernel_loads_by_a_map_with_and_without_bit_21_of_its_second_word(
    cleared: int, tmp_path: Path
) -> None:
    """Triton and CUTLASS clear the bit in maps of small tensors."""
    tensor = np.arange(32, dtype=np.uint32).reshape(4, 8) + 7
    job = {"tensor": tensor, "cleared": cleared}
    [found] = run_in_child([job], tmp_path, "tests.softgpu.encoded_maps")
    np.testing.assert_array_equal(found, tensor)
