"""Integer and float instructions, compared with NumPy and Python integers, including edge cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
EDGES_32 = [
    0,
    1,
    2,
    3,
    5,
    31,
    32,
    33,
    255,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFE,
    0xFFFFFFFF,
    0x12345678,
    0xDEADBEEF,
]
EDGES_64 = [
    0,
    1,
    2,
    63,
    64,
    65,
    1 << 31,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    M64 - 1,
    M64,
    0x123456789ABCDEF0,
    0xFEDCBA9876543210,
    7,
    1000,
]
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    3.0e38,
    -3.0e38,
    1e-40,
    math.inf,
    -math.inf,
    math.nan,
    123456.789,
    -7.25,
]


def s32(v: int) -> int:
    return v - (1 << 32) if v & 0x80000000 else v


def s64(v: int) -> int:
    return v - (1 << 64) if v >> 63 else v


def trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def kernel(body: str, bits: int) -> str:
    """Return a kernel that computes d[i] = f(a[i], b[i], c[i]) on registers of one width."""
    size = bits // 8
    load = "".join(f"add.u64 %p1, %{n}p, %off; ld.global.b{bits} %{n}, [%p1];\n" for n in "abc")
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd) {{
.reg .b{bits} %a, %b, %c, %d, %e; .reg .b32 %t, %u, %v;
.reg .b64 %ap, %bp, %cp, %dp, %off, %p1, %w; .reg .pred %q, %q2; .reg .b16 %h; .reg .f64 %fd;
ld.param.u64 %ap, [pa]; ld.param.u64 %bp, [pb]; ld.param.u64 %cp, [pc]; ld.param.u64 %dp, [pd];
mov.u32 %t, %tid.x; mul.wide.u32 %off, %t, {size};
{load}
{body}
add.u64 %p1, %dp, %off; st.global.b{bits} [%p1], %d; ret; }}
"""


INTEGER: dict[str, tuple[int, str, Callable[[int, int, int], int]]] = {
    "add.u32": (32, "add.u32 %d, %a, %b;", lambda a, b, c: a + b),
    "sub.s32": (32, "sub.s32 %d, %a, %b;", lambda a, b, c: a - b),
    "add.sat.s32": (
        32,
        "add.sat.s32 %d, %a, %b;",
        lambda a, b, c: max(-(1 << 31), min((1 << 31) - 1, s32(a) + s32(b))),
    ),
    "mul.lo.s32": (32, "mul.lo.s32 %d, %a, %b;", lambda a, b, c: a * b),
    "mul.hi.u32": (32, "mul.hi.u32 %d, %a, %b;", lambda a, b, c: a * b >> 32),
    "mul.hi.s32": (32, "mul.hi.s32 %d, %a, %b;", lambda a, b, c: s32(a) * s32(b) >> 32),
    "mad.lo.s32": (32, "mad.lo.s32 %d, %a, %b, %c;", lambda a, b, c: a * b + c),
    "vabsdiff4.u32.u32.u32": (
        32,
        "vabsdiff4.u32.u32.u32 %d, %a, %b, %c;",
        lambda a, b, c: sum(abs((a >> i & 255) - (b >> i & 255)) << i for i in (0, 8, 16, 24)),
    ),
    "vabsdiff2.u32.u32.u32.add": (
        32,
        "vabsdiff2.u32.u32.u32.add %d, %a, %b, %c;",
        lambda a, b, c: c + sum(abs((a >> i & 65535) - (b >> i & 65535)) for i in (0, 16)),
    ),
    "div.u32": (32, "div.u32 %d, %a, %b;", lambda a, b, c: a // b if b else M32),
    "div.s32": (32, "div.s32 %d, %a, %b;", lambda a, b, c: trunc_div(s32(a), s32(b)) if b else M32),
    "rem.u32": (32, "rem.u32 %d, %a, %b;", lambda a, b, c: a % b if b else a),
    "rem.s32": (
        32,
        "rem.s32 %d, %a, %b;",
        lambda a, b, c: s32(a) - trunc_div(s32(a), s32(b)) * s32(b) if b else a,
    ),
    "min.s32": (32, "min.s32 %d, %a, %b;", lambda a, b, c: min(s32(a), s32(b))),
    "max.u32": (32, "max.u32 %d, %a, %b;", lambda a, b, c: max(a, b)),
    "abs.s32": (32, "abs.s32 %d, %a;", lambda a, b, c: abs(s32(a))),
    "neg.s32": (32, "neg.s32 %d, %a;", lambda a, b, c: -a),
    "and.b32": (32, "and.b32 %d, %a, %b;", lambda a, b, c: a & b),
    "or.b32": (32, "or.b32 %d, %a, %b;", lambda a, b, c: a | b),
    "xor.b32": (32, "xor.b32 %d, %a, %b;", lambda a, b, c: a ^ b),
    "not.b32": (32, "not.b32 %d, %a;", lambda a, b, c: ~a),
    "shl.b32": (32, "shl.b32 %d, %a, %b;", lambda a, b, c: a << b if b < 32 else 0),
    "shr.u32": (32, "shr.u32 %d, %a, %b;", lambda a, b, c: a >> b if b < 32 else 0),
    "shr.s32": (32, "shr.s32 %d, %a, %b;", lambda a, b, c: s32(a) >> min(b, 31)),
    "shf.l.wrap": (
        32,
        "shf.l.wrap.b32 %d, %a, %b, %c;",
        lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
    ),
    "shf.r.clamp": (
        32,
        "shf.r.clamp.b32 %d, %a, %b, %c;",
        lambda a, b, c: (b << 32 | a) >> min(c, 32),
    ),
    "popc": (32, "popc.b32 %d, %a;", lambda a, b, c: a.bit_count()),
    "clz": (32, "clz.b32 %d, %a;", lambda a, b, c: 32 - a.bit_length()),
    "brev": (32, "brev.b32 %d, %a;", lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    "bfind.u32": (32, "bfind.u32 %d, %a;", lambda a, b, c: a.bit_length() - 1),
    "bfe.u32": (32, "bfe.u32 %d, %a, 5, 9;", lambda a, b, c: a >> 5 & 511),
    "bfi": (32, "bfi.b32 %d, %a, %b, 4, 8;", lambda a, b, c: b & ~0xFF0 | a << 4 & 0xFF0),
    "prmt": (
        32,
        "prmt.b32 %d, %a, %b, 0x7531;",
        lambda a, b, c: int.from_bytes((a | b << 32).to_bytes(8, "little")[1::2], "little"),
    ),
    "lop3": (32, "lop3.b32 %d, %a, %b, %c, 0x96;", lambda a, b, c: a ^ b ^ c),
    "sad.u32": (32, "sad.u32 %d, %a, %b, %c;", lambda a, b, c: abs(a - b) + c),
    "dp4a": (
        32,
        "dp4a.u32.u32 %d, %a, %b, %c;",
        lambda a, b, c: c + sum((a >> 8 * i & 255) * (b >> 8 * i & 255) for i in range(4)),
    ),
    "selp": (
        32,
        "setp.lt.s32 %q, %a, %b; selp.b32 %d, %a, %c, %q;",
        lambda a, b, c: a if s32(a) < s32(b) else c,
    ),
    "setp.and": (
        32,
        "setp.gt.u32 %q2, %c, 5; setp.le.and.u32 %q|%q2, %a, %b, %q2; selp.b32 %d, 1, 0, %q;",
        lambda a, b, c: int(a <= b and c > 5),
    ),
    "guard": (
        32,
        "mov.u32 %d, 9; setp.eq.u32 %q, %a, %b; @!%q mov.u32 %d, 4;",
        lambda a, b, c: 9 if a == b else 4,
    ),
    "carry": (32, "add.cc.u32 %e, %a, %b; addc.u32 %d, %c, 0;", lambda a, b, c: c + (a + b >> 32)),
    "borrow": (
        32,
        "sub.cc.u32 %e, %a, %b; subc.u32 %d, %c, 0;",
        lambda a, b, c: c - (1 if a < b else 0),
    ),
    "cvt.u8": (32, "cvt.u32.u8 %d, %a;", lambda a, b, c: a & 255),
    "cvt.s16": (32, "cvt.s32.s16 %d, %a;", lambda a, b, c: ((a & 0xFFFF) ^ 0x8000) - 0x8000),
    "cvt.sat": (32, "cvt.sat.u8.s32 %d, %a;", lambda a, b, c: max(0, min(255, s32(a)))),
    "vector": (32, "mov.b64 %w, {%a, %b}; mov.b64 {%t, %d}, %w;", lambda a, b, c: b),
    "add.u64": (64, "add.u64 %d, %a, %b;", lambda a, b, c: a + b),
    "mul.lo.u64": (64, "mul.lo.u64 %d, %a, %b;", lambda a, b, c: a * b),
    "mul.hi.u64": (64, "mul.hi.u64 %d, %a, %b;", lambda a, b, c: a * b >> 64),
    "mul.hi.s64": (64, "mul.hi.s64 %d, %a, %b;", lambda a, b, c: s64(a) * s64(b) >> 64),
    "div.s64": (64, "div.s64 %d, %a, %b;", lambda a, b, c: trunc_div(s64(a), s64(b)) if b else M64),
    "rem.u64": (64, "rem.u64 %d, %a, %b;", lambda a, b, c: a % b if b else a),
    "shr.s64": (
        64,
        "cvt.u32.u64 %u, %b; shr.s64 %d, %a, %u;",
        lambda a, b, c: s64(a) >> min(b & M32, 63),
    ),
    "brev.b64": (64, "brev.b64 %d, %a;", lambda a, b, c: int(f"{a:064b}"[::-1], 2)),
    "max.s64": (64, "max.s64 %d, %a, %b;", lambda a, b, c: max(s64(a), s64(b))),
}


def to_s32(v: float, how: Callable[[float], float]) -> int:
    if math.isnan(v):
        return 0
    if math.isinf(v):
        return (1 << 31) - 1 if v > 0 else -(1 << 31)
    return max(-(1 << 31), min((1 << 31) - 1, int(how(v))))


FLOAT: dict[str, tuple[str, Callable[[Any, Any, Any], Any]]] = {
    "add.f32": ("add.f32 %d, %a, %b;", lambda a, b, c: a + b),
    "mul.f32": ("mul.f32 %d, %a, %b;", lambda a, b, c: a * b),
    "div.rn.f32": ("div.rn.f32 %d, %a, %b;", lambda a, b, c: a / b),
    "fma.rn.f32": (
        "fma.rn.f32 %d, %a, %b, %c;",
        lambda a, b, c: np.float32(np.float64(a) * np.float64(b) + np.float64(c)),
    ),
    "neg.f32": ("neg.f32 %d, %a;", lambda a, b, c: -a),
    "abs.f32": ("abs.f32 %d, %a;", lambda a, b, c: np.abs(a)),
    "min.f32": ("min.f32 %d, %a, %b;", lambda a, b, c: np.fmin(a, b)),
    "max.f32": ("max.f32 %d, %a, %b;", lambda a, b, c: np.fmax(a, b)),
    "max.NaN.f32": ("max.NaN.f32 %d, %a, %b;", lambda a, b, c: np.maximum(a, b)),
    "sqrt.rn.f32": ("sqrt.rn.f32 %d, %a;", lambda a, b, c: np.sqrt(a)),
    "add.sat.f32": (
        "add.sat.f32 %d, %a, %b;",
        lambda a, b, c: (
            np.float32(0) if np.isnan(a + b) else np.clip(a + b, np.float32(0), np.float32(1))
        ),
    ),
    "add.ftz.f32": (
        "add.ftz.f32 %d, %a, 0f00000000;",
        lambda a, b, c: np.float32(0) if abs(a) < 1.1754944e-38 else a,
    ),
    "cvt.rni.s32": (
        "cvt.rni.s32.f32 %t, %a; cvt.rn.f32.s32 %d, %t;",
        lambda a, b, c: np.float32(to_s32(float(a), round)),
    ),
    "cvt.rzi.s32": (
        "cvt.rzi.s32.f32 %t, %a; cvt.rn.f32.s32 %d, %t;",
        lambda a, b, c: np.float32(to_s32(float(a), math.trunc)),
    ),
    "cvt.rmi.f32": ("cvt.rmi.f32.f32 %d, %a;", lambda a, b, c: np.floor(a)),
    "cvt.f64 and back": (
        "cvt.f64.f32 %fd, %a; add.f64 %fd, %fd, 0d3FF0000000000000; cvt.rn.f32.f64 %d, %fd;",
        lambda a, b, c: np.float32(np.float64(a) + 1.0),
    ),
    "cvt.f16": (
        "cvt.rn.f16.f32 %h, %a; cvt.f32.f16 %d, %h;",
        lambda a, b, c: np.float32(np.float16(a)),
    ),
    "setp.ltu": (
        "setp.ltu.f32 %q, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %q;",
        lambda a, b, c: np.float32(not a >= b),
    ),
    "setp.ne": (
        "setp.ne.f32 %q, %a, %b; selp.f32 %d, 0f3F800000, 0f00000000, %q;",
        lambda a, b, c: np.float32(a < b or a > b),
    ),
    "testp": (
        "testp.notanumber.f32 %q, %a; selp.f32 %d, 0f3F800000, 0f00000000, %q;",
        lambda a, b, c: np.float32(np.isnan(a)),
    ),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of all kernels, run in one process."""
    jobs: dict[str, dict[str, Any]] = {}
    for name, (bits, body, _) in INTEGER.items():
        jobs[name] = {
            "ptx": kernel(body, bits),
            "arrays": [*integer_inputs(bits), np.zeros(16, f"u{bits // 8}")],
        }
    for name, (body, _) in FLOAT.items():
        jobs[name] = {
            "ptx": kernel(body, 32),
            "arrays": [*float_inputs(), np.zeros(16, np.float32)],
        }
    out = run_in_child(
        [{"kernel": "k", "grid": 1, "block": 16, **j} for j in jobs.values()],
        tmp_path_factory.mktemp("gpu"),
    )
    return dict(zip(jobs, out, strict=True))


def integer_inputs(bits: int) -> list[np.ndarray[Any, Any]]:
    edges = EDGES_32 if bits == 32 else EDGES_64
    return [np.array(edges[k:] + edges[:k], f"u{bits // 8}") for k in (0, 3, 7)]


def float_inputs() -> list[np.ndarray[Any, Any]]:
    return [np.array(FLOATS[k:] + FLOATS[:k], np.float32) for k in (0, 5, 9)]


@pytest.mark.parametrize("name", INTEGER)
def test_integer_instruction_matches_python(results: dict[str, Any], name: str) -> None:
    bits, _, expected = INTEGER[name]
    assert isinstance(results[name], list), results[name]
    a, b, c = (x.tolist() for x in integer_inputs(bits))
    mask = M32 if bits == 32 else M64
    assert results[name][3].tolist() == [expected(*v) & mask for v in zip(a, b, c, strict=True)]


@pytest.mark.parametrize("name", FLOAT)
def test_float_instruction_matches_numpy(results: dict[str, Any], name: str) -> None:
    assert isinstance(results[name], list), results[name]
    with np.errstate(all="ignore"):
        expected = np.array(
            [FLOAT[name][1](*v) for v in zip(*float_inputs(), strict=True)], np.float32
        )
    np.testing.assert_array_equal(results[name][3], expected)


def test_unknown_instruction_is_rejected_with_name_and_line(tmp_path: Path) -> None:
    ptx = kernel("tcgen05.fence::before_thread_sync;\n", 32)
    job = {"ptx": ptx, "kernel": "k", "grid": 1, "block": 1, "arrays": [np.zeros(1, np.uint32)] * 4}
    broken = job | {"ptx": ptx.replace("ret;", "ret; $"), "kernel": "k"}
    unknown, malformed = run_in_child([job, broken], tmp_path)
    assert unknown[:2] == ("error", 801)
    assert malformed[:2] == ("error", 218) and "line" in malformed[2]
