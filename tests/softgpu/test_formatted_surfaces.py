"""sust.p and sured.p: stores and reductions of texels, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.texture_device import LAYERED, SURFACE, Job, run_jobs

HEAD = """.version 9.0
.target sm_120a
.address_size 64
"""
THREADS = 32


def program(body: str) -> str:
    """Return a kernel: %r1 to %r4 and %l2 hold the four words of a thread."""
    return f"""{HEAD}.visible .entry k(.param .u64 object, .param .u64 words, .param .u64 out) {{
.reg .b32 %r<12>; .reg .b64 %l<9>; .reg .f32 %f<4>;
mov.u32 %r9, %tid.x; and.b32 %r5, %r9, 7; shr.u32 %r6, %r9, 3; ld.param.u64 %l1, [object];
ld.param.u64 %l3, [words]; mul.wide.u32 %l4, %r9, 16; add.u64 %l3, %l3, %l4;
ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%l3]; ld.global.b64 %l2, [%l3];
{body}
ret; }}
"""


def job(body: str, array: np.ndarray[Any, Any], words: np.ndarray[Any, Any], **more: Any) -> Job:
    flags = SURFACE | more.pop("flags", 0)
    return Job(
        program(body),
        array,
        np.zeros(1, np.uint32),
        (words,),
        THREADS,
        flags,
        more.pop("dimensions", 2),
        None,
    )


def arrays_of(jobs: list[Job], folder: Path) -> list[np.ndarray[Any, Any]]:
    results = run_jobs(jobs, folder)
    assert not any(isinstance(r[0], str) for r in results), results
    return [r[0] for r in results]


def converted(words: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """Return what words become in a format: floats are rounded, integers saturate."""
    if kind[0] == "f":
        with np.errstate(over="ignore"):
            return words.view(np.float32).astype(np.dtype(kind))
    limits = np.iinfo(np.dtype(kind))
    values = words.view(np.int32 if kind[0] == "i" else np.uint32).astype(np.int64)
    return np.asarray(np.clip(values, limits.min, limits.max).astype(np.dtype(kind)))


def words_of(kind: str, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if kind[0] == "f":
        numbers = rng.standard_normal((THREADS, 4)).astype(np.float32)
        numbers[0] = [0.0, -0.0, np.inf, 65520.0]
        return numbers.view(np.uint32)
    words = rng.integers(0, 2**32, (THREADS, 4), np.uint64).astype(np.uint32)
    words[::2] %= 300
    words[1] = [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0]
    return words


@pytest.mark.parametrize("kind", ["u1", "u2", "u4", "i1", "i2", "i4", "f2", "f4"])
def test_stored_texel_has_the_format_of_the_array(kind: str, tmp_path: Path) -> None:
    """Each thread stores a texel; channels without a word become 0, other words are ignored."""
    words = words_of(kind, 1)
    forms = [
        "sust.p.2d.v4.b32.trap [%l1, {%r5, %r6}], {%r1, %r2, %r3, %r4};",
        "sust.p.2d.v2.b32.zero [%l1, {%r5, %r6}], {%r1, %r2};",
        "sust.p.2d.b32.clamp [%l1, {%r5, %r6}], %r1;",
    ]
    for channels in (1, 2, 4):
        before = np.full((1, 4, 8, channels), 77, np.dtype(kind))
        stored = arrays_of([job(f, before, words) for f in forms], tmp_path)
        for count, after in zip((4, 2, 1), stored, strict=True):
            expected = np.zeros((THREADS, 4), np.dtype(kind))
            expected[:, :count] = converted(words, kind)[:, :count]
            np.testing.assert_array_equal(
                after.reshape(THREADS, channels), expected[:, :channels], f"{channels} {count}"
            )


@pytest.mark.parametrize("value", ["5", "%u"])
def test_integer_is_the_first_channel(value: str, tmp_path: Path) -> None:
    """ptxas takes an integer in place of a vector."""
    before = np.full((1, 4, 8, 4), 77, np.uint32)
    body = f".reg .u32 %u; mov.u32 %u, 5; sust.p.2d.v4.b32.trap [%l1, {{%r5, %r6}}], {value};"
    [after] = arrays_of([job(body, before, words_of("u4", 1))], tmp_path)
    np.testing.assert_array_equal(after.reshape(THREADS, 4), [[5, 0, 0, 0]] * THREADS)


def test_store_beyond_the_array(tmp_path: Path) -> None:
    words = np.arange(THREADS * 4, dtype=np.uint32).reshape(THREADS, 4)
    before = np.full((1, 4, 8, 2), 77, np.uint16)
    only = "setp.ne.u32 %p1, %r9, 3; @%p1 ret; "
    texts = [
        f".reg .pred %p1; {only} sust.p.2d.v2.b32.{how} [%l1, {{{at}}}], {{%r1, %r2}};"
        for how, at in (
            ("clamp", "2000000000, -5"),
            ("clamp", "-1, 100"),
            ("zero", "8, 0"),
            ("zero", "-1, 0"),
            ("zero", "0, 4"),
        )
    ]
    results = arrays_of([job(t, before, words) for t in texts], tmp_path)
    corners = [(0, 7), (3, 0)]
    for n, after in enumerate(results):
        expected = before.copy()
        if n < len(corners):
            expected[0][corners[n]] = [12, 13]
        np.testing.assert_array_equal(after, expected, texts[n])
    [(what, code, _)] = run_jobs([job(texts[2].replace("zero", "trap"), before, words)], tmp_path)
    assert (what, code) == ("error", 719)


def test_store_to_rows_volumes_and_layers(tmp_path: Path) -> None:
    words = np.arange(1, THREADS * 4 + 1, dtype=np.uint32).reshape(THREADS, 4)
    row, solid = np.zeros((1, 1, 32, 1), np.uint8), np.zeros((4, 4, 8, 1), np.uint32)
    jobs = [
        job("sust.p.1d.b32.trap [%l1, {%r9}], %r1;", row, words, dimensions=1),
        job("sust.p.3d.b32.trap [%l1, {%r5, 2, %r6, 9}], %r1;", solid, words, dimensions=3),
        job("sust.p.a2d.b32.trap [%l1, {%r6, %r5, 2, 9}], %r1;", solid, words, flags=LAYERED),
    ]
    results = arrays_of(jobs, tmp_path)
    np.testing.assert_array_equal(results[0].ravel(), words[:, 0])
    expected = np.zeros_like(solid)
    expected[:, 2, :, 0] = words[:, 0].reshape(4, 8)
    np.testing.assert_array_equal(results[1], expected)
    np.testing.assert_array_equal(results[2], expected)


REDUCTIONS = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


@pytest.mark.parametrize("kind", ["u4", "i4"])
@pytest.mark.parametrize("operation", list(REDUCTIONS))
def test_reduction_has_the_sign_of_the_format(kind: str, operation: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    words = rng.integers(0, 2**32, (THREADS, 4), np.uint64).astype(np.uint32)
    before = rng.integers(0, 2**32, (1, 4, 8, 1), np.uint64).astype(np.uint32).view(np.dtype(kind))
    form = f"sured.p.{operation}.2d.b32.trap [%l1, {{%r5, %r6}}], %r1;"
    [after] = arrays_of([job(form, before, words)], tmp_path)
    expected = REDUCTIONS[operation](before.ravel(), words[:, 0].view(np.dtype(kind)))
    np.testing.assert_array_equal(after.ravel(), expected)


@pytest.mark.parametrize("kind", ["u4", "i4"])
@pytest.mark.parametrize("operation", ["min", "max"])
def test_reduction_of_64_bits(kind: str, operation: str, tmp_path: Path) -> None:
    """The first coordinate counts elements of 64 bits: two channels."""
    rng = np.random.default_rng(3)
    words = rng.integers(0, 2**32, (THREADS, 4), np.uint64).astype(np.uint32)
    before = rng.integers(0, 2**32, (1, 4, 8, 2), np.uint64).astype(np.uint32).view(np.dtype(kind))
    form = f"sured.p.{operation}.2d.b64.trap [%l1, {{%r5, %r6}}], %l2;"
    [after] = arrays_of([job(form, before, words)], tmp_path)
    wide = np.dtype("u8" if kind == "u4" else "i8")
    values = words[:, :2].copy().view(wide).ravel()
    expected = REDUCTIONS[operation](before.copy().view(wide).ravel(), values)
    np.testing.assert_array_equal(after.view(wide).ravel(), expected)


@pytest.mark.parametrize(
    "form",
    [
        "sured.p.add.1d.b64.trap [%l1, {%r5}], %l2;",
        "sured.p.min.1d.u32.trap [%l1, {%r5}], %r1;",
        "sust.p.1d.b16.trap [%l1, {%r5}], %r1;",
        "sust.p.2d.v4.b32.trap [%l1, {%r5}], {%r1, %r2, %r3, %r4};",
        "sust.p.2d.v4.b32.trap [%l1, {%r5, %l2}], {%r1, %r2, %r3, %r4};",
        "suld.p.1d.b32.trap %r1, [%l1, {%r5}];",
    ],
)
def test_invalid_form_is_refused_by_name(form: str, tmp_path: Path) -> None:
    [(what, _, log)] = run_in_child([{"ptx": program(form)}], tmp_path)
    assert what == "error"
    assert form.split(maxsplit=1)[0] in log
