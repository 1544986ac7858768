"""Bounds and alignment checks of accesses that the emitter groups by base register."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.softgpu.driver import run_in_child

ILLEGAL_ADDRESS, MISALIGNED = 700, 716


def run(body: str, tmp_path: Path, barrier: str = "", shift: int = 0) -> Any:
    """Run `body` with 16 threads; return arrays a and d of 64 words, or an error.

    %b is the address of a[16 + tid] plus `shift` bytes. %s is the same address in 48 words of
    shared memory, where word i has the value 100 + i % 16. %d is the address of d[tid].
    """
    ptx = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pd, .param .u32 pshift) {{
.reg .b32 %r<9>, %s, %t, %i; .reg .b64 %b, %d, %o, %c; .reg .pred %p; .shared .align 16 .b8 m[192];
ld.param.u64 %b, [pa]; ld.param.u64 %d, [pd]; ld.param.u32 %i, [pshift]; mov.u32 %t, %tid.x;
mul.wide.u32 %o, %t, 4; add.u64 %d, %d, %o; add.u64 %b, %b, %o; add.u64 %b, %b, 64;
cvt.s64.s32 %c, %i; add.u64 %b, %b, %c;
mov.u32 %s, m; shl.b32 %r1, %t, 2; add.u32 %s, %s, %r1; add.u32 %r2, %t, 100;
st.shared.u32 [%s], %r2; st.shared.u32 [%s+64], %r2; st.shared.u32 [%s+128], %r2;
{barrier}
add.u32 %s, %s, %i;
{body}
ret; }}
"""
    a, d = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    return run_in_child(
        [
            {
                "ptx": ptx,
                "kernel": "k",
                "grid": 1,
                "block": 16,
                "arrays": [a, d],
                "scalars": (shift & 0xFFFFFFFF,),
            }
        ],
        tmp_path,
    )[0]


STORE_SUM = "add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; st.global.u32 [%d], %r3;"
GLOBAL = (
    "ld.global.u32 %r3, [%b+-64]; ld.global.u32 %r4, [%b+64]; ld.global.u32 %r5, [%b]; " + STORE_SUM
)
SHARED = (
    "ld.shared.u32 %r3, [%s+64]; ld.shared.u32 %r4, [%s+128]; ld.shared.u32 %r5, [%s]; " + STORE_SUM
)


def test_grouped_accesses_read_their_addresses(tmp_path: Path) -> None:
    i = np.arange(16)
    for barrier in ("", "bar.sync 0;"):
        np.testing.assert_array_equal(
            run(GLOBAL, tmp_path, barrier)[1][:16], i + (i + 16) + (i + 32)
        )
        np.testing.assert_array_equal(run(SHARED, tmp_path, barrier)[1][:16], 3 * (i + 100))


def test_changed_register_starts_new_group(tmp_path: Path) -> None:
    body = (
        "ld.global.u32 %r3, [%b]; add.u64 %b, %b, 4; ld.global.u32 %r4, [%b]; "
        "ld.global.u32 %r5, [%b+4]; sub.u32 %r4, %r4, %r3; sub.u32 %r5, %r5, %r3; "
        "mad.lo.u32 %r3, %r5, 10, %r4; st.global.u32 [%d], %r3;"
    )
    np.testing.assert_array_equal(run(body, tmp_path)[1][:16], 21)


def test_access_outside_memory_is_illegal_address(tmp_path: Path) -> None:
    # The last of three accesses by the last thread, then the first access by the first thread.
    assert run(SHARED, tmp_path, shift=4)[1] == ILLEGAL_ADDRESS
    assert run(SHARED, tmp_path, "bar.sync 0;", shift=-4)[1] == ILLEGAL_ADDRESS
    assert run(GLOBAL, tmp_path, shift=1 << 30)[1] == ILLEGAL_ADDRESS
    assert run(GLOBAL, tmp_path, shift=-(1 << 31))[1] == ILLEGAL_ADDRESS


def test_misaligned_group_is_misaligned_address(tmp_path: Path) -> None:
    assert run(GLOBAL, tmp_path, shift=2)[1] == MISALIGNED
    assert run(SHARED, tmp_path, shift=2)[1] == MISALIGNED


def test_predicated_off_access_is_not_checked(tmp_path: Path) -> None:
    body = (
        "setp.lt.u32 %p, %t, 16; ld.shared.u32 %r3, [%s]; @!%p ld.shared.u32 %r3, [%s+4096]; "
        "ld.shared.u32 %r4, [%s+64]; add.u32 %r3, %r3, %r4; st.global.u32 [%d], %r3;"
    )
    np.testing.assert_array_equal(run(body, tmp_path)[1][:16], 2 * (np.arange(16) + 100))
