"""Modifiers of float instructions and mixed precision, with special numbers."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.test_instructions import kernel

# Bits by type: zeros, ones, -3, denormals, the smallest normal and largest numbers, inf and NaN.
VALUES = {
    "f32": [
        *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0xC0400000, 0x00000001, 0x807FFFFF),
        *(0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000),
    ],
    "f16": [
        *(0x0000, 0x8000, 0x3C00, 0xBC00, 0xC200, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF),
        *(0x7C00, 0xFC00, 0x7E00, 0xFE00),
    ],
    "bf16": [
        *(0x0000, 0x8000, 0x3F80, 0xBF80, 0xC040, 0x0001, 0x807F, 0x0080, 0x7F7F, 0xFF7F),
        *(0x7F80, 0xFF80, 0x7FC0, 0xFFC0),
    ],
}
PAIRS = {t: list(itertools.product(v, v)) for t, v in VALUES.items()}
HALVES = ".reg .b16 %x, %y, %z, %xh, %yh, %zh; mov.b32 {%x, %xh}, %a; mov.b32 {%y, %yh}, %b; "


def number(kind: str, bits: int) -> float:
    if kind == "f16":
        return float(np.array([bits], np.uint16).view(np.float16)[0])
    return float(np.array([bits << 16 if kind == "bf16" else bits], np.uint32).view(np.float32)[0])


def run(bodies: list[str], a: list[int], b: list[int], folder: Path) -> list[list[int]]:
    """Return d of each body for each pair of bits; c is b.

    One kernel has all bodies: the compiler needs longer to start than for a body.
    """
    count, text = len(a), ""
    for row, body in enumerate(bodies, 1):  # the kernel itself writes row 0
        text += f"{{ {body} }} add.u64 %p1, %dp, %off; st.global.b32 [%p1+{row * count * 4}], %d;\n"
    arrays = [*(np.array(v, np.uint32) for v in (a, b, b))]
    arrays.append(np.zeros((len(bodies) + 1) * count, np.uint32))
    job: dict[str, Any] = {"ptx": kernel(text, 32), "kernel": "k", "grid": 1, "block": count}
    [result] = run_in_child([job | {"arrays": arrays}], folder)
    assert isinstance(result, list), result
    rows: list[list[int]] = result[3].reshape(-1, count).tolist()
    return rows[1:]


def flush(kind: str, bits: int) -> int:
    smallest, sign = (0x0400, 0x8000) if kind == "f16" else (0x00800000, 0x80000000)
    return bits & sign if bits & (sign - 1) < smallest else bits


def expected_extreme(op: str, kind: str, a: int, b: int, nan: bool, ftz: bool) -> int | None:
    """Return the bits of {min,max}.xorsign.abs, or None for a NaN (PTX ISA, min)."""
    if ftz:
        a, b = flush(kind, a), flush(kind, b)
    sign = 0x80000000 if kind == "f32" else 0x8000
    x, y = a & (sign - 1), b & (sign - 1)
    nans = [math.isnan(number(kind, v)) for v in (x, y)]
    if all(nans) or (nan and any(nans)):
        return None
    smaller = min if op == "min" else max
    magnitude = y if nans[0] else x if nans[1] else smaller(x, y)
    return magnitude | (a ^ b) & sign


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_xorsign_abs_has_the_sign_of_the_product(kind: str, tmp_path: Path) -> None:
    modifiers = ["", ".NaN"] if kind == "bf16" else ["", ".NaN", ".ftz"]
    forms = list(itertools.product(["min", "max"], modifiers))
    bodies = []
    for op, modifier in forms:
        instruction = f"{op}{modifier}.xorsign.abs.{kind}"
        half = f"{HALVES} {instruction} %z, %x, %y; cvt.u32.u16 %d, %z;"
        bodies.append(f"{instruction} %d, %a, %b;" if kind == "f32" else half)
    pairs = PAIRS[kind]
    rows = run(bodies, [a for a, _ in pairs], [b for _, b in pairs], tmp_path)
    for (op, modifier), row in zip(forms, rows, strict=True):
        for (a, b), got in zip(pairs, row, strict=True):
            expected = expected_extreme(op, kind, a, b, modifier == ".NaN", modifier == ".ftz")
            case = (op, modifier, hex(a), hex(b), hex(got))
            if expected is None:
                assert math.isnan(number(kind, got)), case
            else:
                assert got == expected, (case, hex(expected))


def same(kind: str, got: int, expected: int) -> bool:
    values = number(kind, got), number(kind, expected)
    return got == expected or all(math.isnan(v) for v in values)


def mixed_and_single(op: str, rounding: str, narrow: str) -> tuple[str, str]:
    """Return a mixed instruction, and a conversion with the instruction in single precision."""
    mixed = f".reg .b16 %x, %y; cvt.u16.u32 %x, %a; mov.b16 %y, %x; {op}{rounding}.f32.{narrow} "
    mixed += f"%d, %x{', %y' if op == 'fma' else ''}, %b;"
    single = f".reg .b16 %x; cvt.u16.u32 %x, %a; cvt.f32.{narrow} %e, %x; {op}{rounding}.f32 "
    single += f"%d, %e{', %e' if op == 'fma' else ''}, %b;"
    return mixed, single


@pytest.mark.parametrize("narrow", ["f16", "bf16"])
def test_mixed_precision_converts_and_computes_in_single(narrow: str, tmp_path: Path) -> None:
    roundings = [".rn", ".rz", ".rm", ".rp", ".rn.sat"]
    forms = [*itertools.product(["add", "sub", "fma"], roundings), ("add", ""), ("sub", "")]
    bodies = [body for form in forms for body in mixed_and_single(*form, narrow)]
    pairs = list(itertools.product(VALUES[narrow], VALUES["f32"]))
    rows = run(bodies, [a for a, _ in pairs], [b for _, b in pairs], tmp_path)
    for form, got, expected in zip(forms, rows[::2], rows[1::2], strict=True):
        cases = zip(pairs, got, expected, strict=True)
        wrong = [(p, g, e) for p, g, e in cases if not same("f32", g, e)]
        assert not wrong, (form, wrong[:5])


def test_three_and_one_are_four_in_mixed_precision(tmp_path: Path) -> None:
    body = ".reg .b16 %x; cvt.u16.u32 %x, %a; add.rn.f32.{} %d, %x, %b;"
    bodies = [body.format("bf16"), body.format("f16")]
    of_bf16, of_f16 = run(bodies, [0x4040, 0x4200], [0x3F800000] * 2, tmp_path)
    assert of_bf16[0] == of_f16[1] == 0x40800000


PACKED = [
    "add.f16",
    "add.ftz.f16",
    "sub.sat.f16",
    "mul.ftz.sat.f16",
    "min.NaN.xorsign.abs.f16",
    "max.ftz.f16",
    "neg.bf16",
    "abs.f16",
    "min.NaN.bf16",
    "max.xorsign.abs.bf16",
    "fma.rn.relu.bf16",
    "fma.rn.ftz.sat.f16",
]


def packed_and_scalar(instruction: str) -> tuple[str, str]:
    """Return an instruction on pairs, and the two instructions that it stands for."""
    count = {"neg": 1, "abs": 1, "fma": 3}.get(instruction.split(".", maxsplit=1)[0], 2)
    packed = f"{instruction}x2 %d, {', '.join(['%a', '%b', '%b'][:count])};"
    low, high = (", ".join(f"%{r}{h}" for r in "xyy"[:count]) for h in ("", "h"))
    scalar = f"{HALVES} {instruction} %z, {low}; {instruction} %zh, {high}; "
    return packed, scalar + "mov.b32 %d, {%z, %zh};"


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_packed_instruction_equals_two_scalar_ones(kind: str, tmp_path: Path) -> None:
    instructions = [i for i in PACKED if i.rsplit(".", 1)[1] == kind]
    bodies = [body for i in instructions for body in packed_and_scalar(i)]
    values = PAIRS[kind]
    a = [x << 16 | y for x, y in values]
    b = [y << 16 | x for x, y in reversed(values)]
    rows = run(bodies, a, b, tmp_path)
    for instruction, got, expected in zip(instructions, rows[::2], rows[1::2], strict=True):
        for g, e in zip(got, expected, strict=True):
            equal = same(kind, g >> 16, e >> 16) and same(kind, g & 0xFFFF, e & 0xFFFF)
            assert equal, (instruction, g, e)


def of_pair(op: str, sign: str, x: int, y: int) -> int:
    """Return the result of a 16-bit integer instruction."""
    if sign == "s":
        x, y = (v - 0x10000 if v & 0x8000 else v for v in (x, y))
    value = {"add": x + y, "min": min(x, y), "max": max(x, y)}[op.split(".", maxsplit=1)[0]]
    return (max(value, 0) if "relu" in op else value) & 0xFFFF


@pytest.mark.parametrize("sign", ["s", "u"])
def test_pairs_of_integers_are_computed_apart(sign: str, tmp_path: Path) -> None:
    ops = ["add", "min", "max"] + (["min.relu", "max.relu"] if sign == "s" else [])
    edges = [0, 1, 2, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    pairs = list(itertools.product(edges, edges))
    a = [x << 16 | y for x, y in pairs]
    b = [y << 16 | x for x, y in pairs]
    rows = run([f"{op}.{sign}16x2 %d, %a, %b;" for op in ops], a, b, tmp_path)
    for op, row in zip(ops, rows, strict=True):
        expected = [of_pair(op, sign, x, y) << 16 | of_pair(op, sign, y, x) for x, y in pairs]
        assert row == expected, op


@pytest.mark.parametrize("rounding", ["rn", "rz"])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_relu_of_a_conversion_clears_negative_numbers(
    rounding: str, kind: str, tmp_path: Path
) -> None:
    values = [*VALUES["f32"], 0x3F800001, 0xBF80FFFF, 0x40490FDB]
    plain = f".reg .b16 %x; cvt.{rounding}.{kind}.f32 %x, %a; cvt.u32.u16 %d, %x;"
    limited = plain.replace(f".{kind}.f32", f".relu.{kind}.f32")
    pair = f"cvt.{rounding}.relu.{kind}x2.f32 %d, %b, %a;"
    base, relu, both = run([plain, limited, pair], values, values, tmp_path)
    for v, r, p in zip(base, relu, both, strict=True):
        negative = number(kind, v) < 0
        assert same(kind, r, 0 if negative else v) or (v & 0x7FFF) == 0
        assert same(kind, p & 0xFFFF, r) and same(kind, p >> 16, r)
