"""Row mode: results and errors are the same as in serial mode, also at the edges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child

# i = ctaid * ntid + tid; c[i] = a[i * scale + shift] + 1 where i < n.
KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pc, .param .u32 pn,
                  .param .u32 pscale, .param .u32 pshift) {
.reg .b32 %r<12>; .reg .b64 %rd<12>; .reg .pred %p;
ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pc];
ld.param.u32 %r1, [pn]; ld.param.u32 %r2, [pscale]; ld.param.u32 %r3, [pshift];
mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mov.u32 %r6, %tid.x;
mad.lo.s32 %r7, %r4, %r5, %r6;
setp.ge.s32 %p, %r7, %r1;
@%p bra $END;
mad.lo.s32 %r8, %r7, %r2, %r3;
mul.wide.s32 %rd3, %r8, 4;
add.s64 %rd4, %rd1, %rd3;
ld.global.u32 %r9, [%rd4];
add.u32 %r10, %r9, 1;
mul.wide.s32 %rd5, %r7, 4;
add.s64 %rd6, %rd2, %rd5;
st.global.u32 [%rd6], %r10;
$END: ret; }
"""


def launch(n: int, scale: int, shift: int, block: int, tmp_path: Path) -> object:
    a, c = np.arange(4096, dtype=np.uint32) * 7, np.zeros(1200, np.uint32)
    job = {
        "ptx": KERNEL,
        "kernel": "k",
        "grid": -(-1200 // block),
        "block": block,
        "arrays": [a, c],
        "scalars": (n, scale & 0xFFFFFFFF, shift & 0xFFFFFFFF),
    }
    return run_in_child([job], tmp_path)[0]


@pytest.mark.parametrize("block", [1, 3, 4, 32, 100, 256])
@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1200])
def test_partial_rows_are_correct(n: int, block: int, tmp_path: Path) -> None:
    result = launch(n, 1, 0, block, tmp_path)
    expected = np.where(np.arange(1200) < n, np.arange(1200) * 7 + 1, 0)
    assert isinstance(result, list)
    np.testing.assert_array_equal(result[1], expected)


@pytest.mark.parametrize(
    ("scale", "shift"), [(1, 5), (2, 0), (3, 1), (0, 9), (-1, 1199), (1 << 30, 0)]
)
def test_other_strides_are_correct(scale: int, shift: int, tmp_path: Path) -> None:
    result = launch(1200, scale, shift, 256, tmp_path)
    index = (np.arange(1200) * scale + shift) % (1 << 32)
    index = np.where(index >= 1 << 31, index - (1 << 32), index)
    if scale == 1 << 30:  # wraps to negative and large indices
        assert isinstance(result, tuple)
        assert result[1] == 700
        return
    assert isinstance(result, list)
    np.testing.assert_array_equal(result[1], index * 7 + 1)


def test_row_outside_memory_is_illegal_address(tmp_path: Path) -> None:
    result = launch(1200, 1, 1 << 24, 256, tmp_path)
    assert isinstance(result, tuple)
    assert result[1] == 700


def test_misaligned_row_is_misaligned_address(tmp_path: Path) -> None:
    ptx = (
        KERNEL.replace(
            "add.s64 %rd4, %rd1, %rd3;", "add.s64 %rd4, %rd1, %rd3; add.s64 %rd4, %rd4, 2;"
        )
        .replace("%rd4, %rd4, 2", "%rd7, %rd4, 2")
        .replace("[%rd4]", "[%rd7]")
    )
    a, c = np.arange(4096, dtype=np.uint32), np.zeros(1200, np.uint32)
    result = run_in_child(
        [
            {
                "ptx": ptx,
                "kernel": "k",
                "grid": 2,
                "block": 256,
                "arrays": [a, c],
                "scalars": (512, 1, 0),
            }
        ],
        tmp_path,
    )[0]
    assert isinstance(result, tuple)
    assert result[1] == 716


def test_kernels_use_row_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBAR_SOFTGPU_KEEP_C", str(tmp_path / "kernel.c"))
    launch(1200, 1, 0, 256, tmp_path)
    assert "run_row(" in (tmp_path / "kernel.c").read_text()
