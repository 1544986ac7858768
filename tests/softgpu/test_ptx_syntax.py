"""Legal PTX that compilers emit and that depends on scopes, guards or hints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.test_instructions import kernel


def run(body: str, folder: Path, declarations: str = "") -> list[int]:
    """Return d of 32 threads; a is the number of the thread, b is 7."""
    ptx = kernel(body, 32).replace(".visible .entry", declarations + ".visible .entry", 1)
    arrays = [np.arange(32, dtype=np.uint32), np.full(32, 7, np.uint32), np.zeros(32, np.uint32)]
    job: dict[str, Any] = {"ptx": ptx, "kernel": "k", "grid": 1, "block": 32}
    [result] = run_in_child([job | {"arrays": [*arrays, np.zeros(32, np.uint32)]}], folder)
    assert isinstance(result, list), result
    return [int(v) for v in result[3]]


def test_blocks_may_use_a_label_again(tmp_path: Path) -> None:
    block = "{{ .reg .pred %s; setp.lt.u32 %s, %a, {}; @%s bra skip; add.u32 %d, %d, 1; skip: }}"
    body = f"mov.u32 %d, 0; {block.format(8)} {block.format(16)}"
    assert run(body, tmp_path) == [(t >= 8) + (t >= 16) for t in range(32)]


def test_label_of_a_nested_block_hides_the_outer_one(tmp_path: Path) -> None:
    body = "mov.u32 %d, 1; { bra over; mov.u32 %d, 2; over: } bra over; mov.u32 %d, 3; over:"
    assert run(body, tmp_path) == [1] * 32


def test_label_twice_in_one_block_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="defined twice"):
        run("{ over: mov.u32 %d, 2; over: }", tmp_path)


@pytest.mark.parametrize("sync", ["", "bar.sync 0;"])
def test_guarded_indexed_branch_keeps_other_lanes(sync: str, tmp_path: Path) -> None:
    body = f"""{sync} and.b32 %t, %a, 1; setp.ge.u32 %q, %a, 8; mov.u32 %d, 5;
list: .branchtargets even, odd;
@%q brx.idx %t, list;
mov.u32 %d, 9; bra done;
even: mov.u32 %d, 20; bra done;
odd: mov.u32 %d, 21;
done: {sync}"""
    assert run(body, tmp_path) == [9 if t < 8 else 20 + t % 2 for t in range(32)]


@pytest.mark.parametrize("size", ["0", "%u", "%q"])
def test_asynchronous_copy_of_no_bytes_reads_no_source(size: str, tmp_path: Path) -> None:
    body = f""".shared .align 16 .b8 buffer[512]; .reg .b32 %s;
mov.u32 %u, 0; setp.eq.u32 %q, %u, 0; mov.u64 %w, 0;
mov.u32 %s, buffer; shl.b32 %t, %a, 4; add.u32 %s, %s, %t; st.shared.b32 [%s+4], 3;
cp.async.ca.shared.global [%s], [%w], 16, {size}; cp.async.wait_all; ld.shared.b32 %d, [%s+4];"""
    assert run(body, tmp_path) == [0] * 32


def test_first_element_of_an_array_is_its_address(tmp_path: Path) -> None:
    body = ".reg .b64 %x; mov.u64 %x, table[0]; ld.global.b32 %d, [%x+4];"
    assert run(body, tmp_path, ".global .b32 table[2] = {4, 6};\n") == [6] * 32


def test_cache_policy_is_a_hint(tmp_path: Path) -> None:
    body = ".reg .b64 %x; createpolicy.fractional.L2::evict_last.b64 %x, 1.0; add.u64 %ap, %ap, 4;"
    body += "ld.global.L2::cache_hint.b32 %d, [%ap], %x;"
    assert run(body, tmp_path) == [1] * 32


def test_address_of_a_parameter_fits_in_a_register_of_32_bits(tmp_path: Path) -> None:
    body = """.reg .b64 %x; mov.u32 %t, pa; add.u32 %t, %t, 8; ld.param.u64 %x, [%t];
mul.wide.u32 %w, %a, 4; add.u64 %x, %x, %w; ld.global.b32 %d, [%x];"""
    assert run(body, tmp_path) == [7] * 32


@pytest.mark.parametrize("sync", ["", "bar.sync 0;"])
def test_nanosleep_takes_its_time(sync: str, tmp_path: Path) -> None:
    body = f""".reg .b64 %x<3>; {sync} mov.u64 %x0, %clock64; {sync} nanosleep.u32 32000; {sync}
mov.u64 %x1, %clock64; sub.u64 %x2, %x1, %x0; cvt.u32.u64 %t, %x2; set.ge.u32.u32 %d, %t, 31000;"""
    assert run(body, tmp_path) == [0xFFFFFFFF] * 32


def test_parameter_of_a_register_is_not_taken_for_uniform(tmp_path: Path) -> None:
    body = """.reg .b64 %x; mov.u64 %x, pa; and.b32 %t, %a, 1; shl.b32 %t, %t, 3;
cvt.u64.u32 %w, %t; add.u64 %x, %x, %w; ld.param.u64 %x, [%x]; ld.global.b32 %d, [%x];"""
    assert run(body, tmp_path) == [7 if t % 2 else 0 for t in range(32)]
