"""mma with block scaling and with floats of 8, 6 and 4 bits, against NumPy.

The layouts of fragments and scale factors are transcribed from the PTX manual.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child

HEAD = ".version 9.0\n.target sm_120a\n.address_size 64\n"
LANES = range(32)
# Bits of exponent and fraction; e4m3 and e5m2 have NaN.
FLOATS = {"e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1)}
Array = np.ndarray[Any, Any]


def number(code: int, kind: str) -> float:
    """Return the value of a code."""
    exponent, fraction = FLOATS[kind]
    e, m = code >> fraction & ((1 << exponent) - 1), code & ((1 << fraction) - 1)
    bias = (1 << (exponent - 1)) - 1
    if (kind == "e4m3" and (e, m) == (15, 7)) or (kind == "e5m2" and e == 31 and m):
        return float("nan")
    v = (1 + m / (1 << fraction)) * 2.0 ** (e - bias) if e else m * 2.0 ** (1 - bias - fraction)
    if kind == "e5m2" and e == 31:
        v = float("inf")
    return -v if code >> (exponent + fraction) & 1 else v


def scale_number(code: int, kind: str) -> float:
    if kind == "ue8m0":
        return float("nan") if code == 255 else 2.0 ** (code - 127)
    return number(code & 127, "e4m3")


def finite_codes(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    codes = [c for c in range(1 << (1 + sum(FLOATS[kind]))) if np.isfinite(number(c, kind))]
    return rng.choice(codes, shape)


def place_a(lane: int, i: int, per: int) -> tuple[int, int]:
    """Return row and column of element i of a lane; a register has `per` elements."""
    register, element = divmod(i, per)
    return lane // 4 + 8 * (register % 2), lane % 4 * per + element + 4 * per * (register // 2)


def place_b(lane: int, i: int, per: int) -> tuple[int, int]:
    register, element = divmod(i, per)
    return lane // 4, lane % 4 * per + element + 4 * per * register


def registers(codes: Array, kind: str, per: int, count: int, place: Any) -> Array:
    """Return the registers of all lanes. e2m1 in bytes lies in the middle of each byte."""
    words = np.zeros((32, count), np.uint64)
    width, shift = (4, 0) if per == 8 else (8, 2 if kind == "e2m1" else 0)
    for lane, i in itertools.product(LANES, range(count * per)):
        code = int(codes[place(lane, i, per)])
        words[lane, i // per] |= np.uint64(code << (shift + width * (i % per)))
    return words.astype(np.uint32)


def results(d: Array) -> Array:
    """Return the matrix of the registers of D."""
    out = np.zeros((16, 8))
    for lane, i in itertools.product(LANES, range(4)):
        out[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2] = d[lane, i]
    return out


def program(instruction: str) -> str:
    """Return a kernel whose lanes load a[4], b[2], c[4] and two scales, and store d[4]."""

    def load(name: str, count: int, register: str) -> str:
        return f"ld.param.u64 %l1, [{name}]; mul.wide.u32 %l2, %r0, {4 * count};" + (
            " add.u64 %l1, %l1, %l2;"
            + "".join(f" ld.global.b32 %{register}{i}, [%l1+{4 * i}];" for i in range(count))
        )

    names = (("A", 4, "a"), ("B", 2, "b"), ("C", 4, "c"), ("S", 2, "s"))
    loads = "\n".join(load(*n) for n in names)
    stores = "".join(f" st.global.f32 [%l1+{4 * i}], %d{i};" for i in range(4))
    return f"""{HEAD}.visible .entry k({", ".join(f".param .u64 {n}" for n in "ABCSD")}) {{
.reg .b32 %r0, %a<4>, %b<2>, %s<2>; .reg .f32 %c<4>, %d<4>; .reg .b64 %l<3>; .reg .b16 %h<4>;
mov.u32 %r0, %tid.x; mov.b16 %h0, 2; mov.b16 %h1, 1; mov.b16 %h2, 0; mov.b16 %h3, 3;
{loads}
{instruction}
ld.param.u64 %l1, [D]; mul.wide.u32 %l2, %r0, 16; add.u64 %l1, %l1, %l2;{stores} ret; }}
"""


VECTORS = "{%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3}, {%b0,%b1}, {%c0,%c1,%c2,%c3}"


def run(instruction: str, arrays: list[Array], folder: Path) -> Array:
    zeros = np.zeros((32, 4), np.float32)
    job = {"ptx": program(instruction), "kernel": "k", "grid": 1, "block": 32}
    [found] = run_in_child([job | {"arrays": [*arrays, zeros]}], folder)
    assert isinstance(found, list), found
    return results(found[4])


def accumulators(rng: np.random.Generator) -> tuple[Array, Array]:
    c = rng.integers(-64, 64, (16, 8)).astype(np.float32)
    lanes = [
        [c[lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2] for i in range(4)] for lane in LANES
    ]
    return c, np.array(lanes, np.float32)


def scale_registers(rng: np.random.Generator, kind: str) -> Array:
    """Return registers whose bytes are scale factors near 1; all lanes differ."""
    low, high = (122, 133) if kind == "ue8m0" else (0x28, 0x48)
    codes = rng.integers(low, high, (32, 2, 4)).astype(np.uint8)
    return codes.view(np.uint32).reshape(32, 2)


def scales(words: Array, kind: str, count: int, byte: int, lane_of: Any, rows: int) -> Array:
    """Return the scale factors of each row: `count` bytes from `byte` on of a lane's register."""
    codes = words.copy().view(np.uint8).reshape(32, 4)
    picked = [[codes[lane_of(row), byte + n] for n in range(count)] for row in range(rows)]
    return np.asarray(np.vectorize(lambda c: scale_number(int(c), kind))(np.array(picked)))


CASES = [
    *[
        ("mxf8f6f4.block_scale.scale_vec::1X", 32, a, b, "ue8m0", 1)
        for a, b in itertools.product(FLOATS, FLOATS)
    ],
    ("mxf8f6f4.block_scale", 32, "e4m3", "e5m2", "ue8m0", 1),
    ("mxf4.block_scale.scale_vec::2X", 64, "e2m1", "e2m1", "ue8m0", 2),
    ("mxf4.block_scale", 64, "e2m1", "e2m1", "ue8m0", 2),
    ("mxf4nvf4.block_scale.scale_vec::2X", 64, "e2m1", "e2m1", "ue8m0", 2),
    ("mxf4nvf4.block_scale.scale_vec::4X", 64, "e2m1", "e2m1", "ue8m0", 4),
    ("mxf4nvf4.block_scale.scale_vec::4X", 64, "e2m1", "e2m1", "ue4m3", 4),
]


def expected_product(a: Array, b: Array, sa: Array, sb: Array, c: Array) -> Array:
    """Return (A * scales) (B * scales) + C; B is transposed."""
    k = a.shape[1]
    return np.asarray(
        (a * np.repeat(sa, k // sa.shape[1], 1)) @ (b * np.repeat(sb, k // sb.shape[1], 1)).T + c
    )


@pytest.mark.parametrize(("kind", "k", "a", "b", "stype", "count"), CASES)
def test_scaled_product_matches_numpy(
    kind: str, k: int, a: str, b: str, stype: str, count: int, tmp_path: Path
) -> None:
    rng, per = np.random.default_rng(abs(hash((kind, a, b))) % 2**32), 4 if k == 32 else 8
    codes_a, codes_b = finite_codes(a, (16, k), rng), finite_codes(b, (8, k), rng)
    c, lanes_c = accumulators(rng)
    words = scale_registers(rng, stype)
    byte_a, pair = (3, 1) if count == 1 else (2, 0) if count == 2 else (0, 1)
    byte_b, lane = (1, 2) if count == 1 else (0, 3) if count == 2 else (0, 1)
    instruction = (
        f"mma.sync.aligned.m16n8k{k}.row.col.kind::{kind}.f32.{a}.{b}.f32.{stype} {VECTORS},"
        f" %s0, {{{byte_a}, {pair}}}, %s1, {{{byte_b}, {lane}}};"
    )
    arrays = [registers(codes_a, a, per, 4, place_a), registers(codes_b, b, per, 2, place_b)]
    actual = run(instruction, [*arrays, lanes_c, words], tmp_path)
    sa = scales(words[:, 0], stype, count, byte_a, lambda r: r % 8 * 4 + 2 * pair + r // 8, 16)
    sb = scales(words[:, 1], stype, count, byte_b, lambda n: n * 4 + lane, 8)
    values = [
        np.vectorize(lambda v, t=t: number(int(v), t))(x) for x, t in ((codes_a, a), (codes_b, b))
    ]
    expected = expected_product(values[0], values[1], sa, sb, c)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-4)


def test_selectors_in_registers(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    codes_a, codes_b = (finite_codes("e4m3", (rows, 32), rng) for rows in (16, 8))
    _, lanes_c = accumulators(rng)
    words = scale_registers(rng, "ue8m0")
    arrays = [registers(codes_a, "e4m3", 4, 4, place_a), registers(codes_b, "e4m3", 4, 2, place_b)]
    form = (
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3"
        f".f32.ue8m0 {VECTORS}, %s0, {{A}}, %s1, {{B}};"
    )
    both = [
        run(form.replace("{A}", a).replace("{B}", b), [*arrays, lanes_c, words], tmp_path)
        for a, b in (("{2, 1}", "{0, 3}"), ("{%h0, %h1}", "{%h2, %h3}"))
    ]
    np.testing.assert_array_equal(both[0], both[1])


def test_scale_of_nan_makes_nan(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    codes = [finite_codes("e4m3", (rows, 32), rng) for rows in (16, 8)]
    words = np.full((32, 2), 0x7F7F7F7F, np.uint32)
    words[4 * 3, 0] = 0x7F7F7FFF  # row 3
    arrays = [
        registers(codes[0], "e4m3", 4, 4, place_a),
        registers(codes[1], "e4m3", 4, 2, place_b),
    ]
    instruction = (
        "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 "
        f"{VECTORS}, %s0, {{0, 0}}, %s1, {{0, 0}};"
    )
    actual = run(instruction, [*arrays, np.zeros((32, 4), np.float32), words], tmp_path)
    assert np.isnan(actual[3]).all()
    assert not np.isnan(np.delete(actual, 3, axis=0)).any()


@pytest.mark.parametrize(("a", "b"), [("e3m2", "e2m3"), ("e2m1", "e4m3"), ("e5m2", "e2m1")])
def test_small_floats_without_scales_match_numpy(a: str, b: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    codes_a, codes_b = finite_codes(a, (16, 32), rng), finite_codes(b, (8, 32), rng)
    if a == "e5m2":
        codes_a &= 0xBF  # the sums of numbers below 2 are exact
    c, lanes_c = accumulators(rng)
    instruction = f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.{a}.{b}.f32 {VECTORS};"
    arrays = [registers(codes_a, a, 4, 4, place_a), registers(codes_b, b, 4, 2, place_b)]
    actual = run(instruction, [*arrays, lanes_c, np.zeros((32, 2), np.uint32)], tmp_path)
    x, y = (
        np.vectorize(lambda v, t=t: number(int(v), t))(m) for m, t in ((codes_a, a), (codes_b, b))
    )
    np.testing.assert_allclose(actual, x @ y.T + c, rtol=1e-5, atol=1e-3)


PREFIX = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3"


@pytest.mark.parametrize(
    "form",
    [
        f"{PREFIX}.f32.ue8m0 {VECTORS}, %s0, {{4, 0}}, %s1, {{0, 0}};",
        f"{PREFIX}.f32.ue8m0 {VECTORS}, %s0, {{0, 2}}, %s1, {{0, 0}};",
        f"{PREFIX}.f32.ue8m0 {VECTORS}, %s0, {{0, 0}}, %s1, {{0, 4}};",
        f"{PREFIX}.f32.ue8m0 {VECTORS}, %s0, {{%s1, 0}}, %s1, {{0, 0}};",
        f"{PREFIX}.f32.ue4m3 {VECTORS}, %s0, {{0, 0}}, %s1, {{0, 0}};",
        f"{PREFIX}.f32.ue8m0 {VECTORS}, %h0, {{0, 0}}, %s1, {{0, 0}};",
        f"{PREFIX}.f32.ue8m0 {VECTORS};",
        f"mma.sync.aligned.m16n8k32.row.col.f32.e3m2.e2m3.f32 {VECTORS};",
        f"mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32.ue8m0 {VECTORS};",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 "
        f"{VECTORS}, %s0, {{0, 0}}, %s1, {{0, 0}};",
        "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e4m3.f32.ue8m0 "
        f"{VECTORS}, %s0, {{0, 0}}, %s1, {{0, 0}};",
    ],
)
def test_form_that_ptxas_rejects_is_refused_by_name(form: str, tmp_path: Path) -> None:
    [(what, _, log)] = run_in_child([{"ptx": program(form)}], tmp_path)
    assert what == "error"
    assert form.split(maxsplit=1)[0] in log
