"""Bulk copies in forms that few programs use, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.test_tensor_copies import (
    Array,
    Tensor,
    expect,
    job,
    load,
    numbers,
    stored,
    tiles,
)


@pytest.mark.parametrize("operation", ["min", "max"])
def test_reduction_of_brain_floats(operation: str, tmp_path: Path) -> None:
    """They are compared as numbers: not a number gives way to the other one."""
    values = [0x3F80, 0xBF80, 0x7FC0, 0x0001, 0x4000, 0xFF80, 0xC000, 0x3F80]
    before = np.array([*values, *values[::-1]], np.uint16)
    tile = np.array(values * 2, np.uint16)
    tensor = Tensor(np.resize(before, 64), (16,))
    body = (
        f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}.bf16 [%tensor], [tile], "
        f"32; {expect(0)}"
    )
    [result] = run_in_child([job(tensor, body, tile)], tmp_path)

    def numbers_of(bits: Array) -> Array:
        return (bits.astype(np.uint32) << 16).view(np.float32)

    combine = np.fmin if operation == "min" else np.fmax
    expected = tensor.data.copy()
    combined = combine(numbers_of(before), numbers_of(tile))
    expected[:16] = combined.view(np.uint32) >> 16
    np.testing.assert_array_equal(numbers_of(stored(result, tensor)), numbers_of(expected))


@pytest.mark.parametrize("tile", ["tile", "tile+0", "tile[0]", "%address"])
def test_address_of_a_copy_may_have_no_brackets(tile: str, tmp_path: Path) -> None:
    tensor = Tensor(numbers((64,), "u4"), (16,))
    body = ".reg .b32 %address; mov.u32 %address, tile; " + load(tensor, (8,)).replace(
        "[tile]", tile
    )
    [result] = tiles([job(tensor, body)], tmp_path)
    np.testing.assert_array_equal(result[:64].view(np.uint32), tensor.data[8:24])
