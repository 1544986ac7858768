"""Texture instructions with offsets, narrow texels and residency, and queries, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.texture_device import (
    AS_INTEGER,
    BORDER,
    CLAMP,
    CUBE,
    GATHER,
    LAYERED,
    LINEAR,
    MIRROR,
    NORMALIZED,
    SURFACE,
    WRAP,
    Job,
    run_jobs,
)

HEAD = """.version 9.0
.target sm_120a
.address_size 64
"""
THREADS = 64


def program(body: str, sync: str = "") -> str:
    """Return a kernel: %f1, %f2, %r5 and %r6 are inputs of a thread, %r1 to %r4 its output."""
    loads = "".join(
        f"ld.param.u64 %l3, [p{i}]; add.u64 %l3, %l3, %l2; ld.global.b32 {register}, [%l3];\n"
        for i, register in enumerate(("%f1", "%f2", "%r5", "%r6"))
    )
    parameters = ", ".join(f".param .u64 p{i}" for i in range(4))
    return f"""{HEAD}.visible .entry k(.param .u64 object, {parameters}, .param .u64 out) {{
.reg .b32 %r<10>; .reg .f32 %f<10>; .reg .b64 %l<9>; .reg .b16 %h<9>; .reg .pred %p<4>;
mov.u32 %r9, %tid.x; mul.wide.u32 %l2, %r9, 4; ld.param.u64 %l1, [object];
mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0; mov.b32 %r4, 0;
{loads}{sync}
{body}
ld.param.u64 %l3, [out]; mul.wide.u32 %l4, %r9, 16; add.u64 %l3, %l3, %l4;
st.global.v4.b32 [%l3], {{%r1, %r2, %r3, %r4}}; ret; }}
"""


def job(
    body: str,
    array: np.ndarray[Any, Any],
    inputs: tuple[np.ndarray[Any, Any], ...],
    sync: str = "",
    **more: Any,
) -> Job:
    output = np.zeros((THREADS, 4), np.uint32)
    return Job(program(body, sync), array, output, inputs, THREADS, **more)


def outputs(jobs: list[Job], folder: Path) -> list[np.ndarray[Any, Any]]:
    results = run_jobs(jobs, folder)
    assert not any(r[0] is None or isinstance(r[0], str) for r in results), results
    return [r[1] for r in results]


def places(rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], ...]:
    """Return coordinates in and around an array of 8 x 8, and offsets from -8 to 7."""
    floats = [rng.uniform(-3, 11, THREADS).astype(np.float32) for _ in range(2)]
    return (*floats, *(rng.integers(-8, 8, THREADS).astype(np.int32) for _ in range(2)))


def wrapped(i: np.ndarray[Any, Any], n: int, mode: int) -> np.ndarray[Any, Any]:
    """Return indices of texels, or n for the border."""
    if mode == WRAP:
        return i % n
    if mode == MIRROR:
        m = i % (2 * n)
        return np.where(m < n, m, 2 * n - 1 - m)
    if mode == CLAMP:
        return np.asarray(np.clip(i, 0, n - 1))
    return np.where((i >= 0) & (i < n), i, n)


def texel(a: np.ndarray[Any, Any], x: Any, y: Any, mode: int) -> np.ndarray[Any, Any]:
    """Return texels of a layer (rows, columns, channels); outside of it, 0."""
    padded = np.pad(a, ((0, 1), (0, 1), (0, 0)))
    rows, columns = wrapped(y, a.shape[0], mode), wrapped(x, a.shape[1], mode)
    return np.asarray(padded[rows, columns])


def between(
    a: np.ndarray[Any, Any], x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return the linear interpolation of clamped texels; weights have 8 bits."""
    x, y = x.astype(np.float64) - 0.5, y.astype(np.float64) - 0.5
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    u, v = (np.floor((t - np.floor(t)) * 256)[:, None] / 256 for t in (x, y))
    top = texel(a, i, j, CLAMP) * (1 - u) + texel(a, i + 1, j, CLAMP) * u
    bottom = texel(a, i, j + 1, CLAMP) * (1 - u) + texel(a, i + 1, j + 1, CLAMP) * u
    return np.asarray(top * (1 - v) + bottom * v)


@pytest.mark.parametrize("mode", [CLAMP, BORDER])
@pytest.mark.parametrize("sync", ["", "bar.sync 0;"])
def test_offset_moves_the_texel(mode: int, sync: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    array = rng.standard_normal((1, 8, 8, 4)).astype(np.float32)
    x, y, u, v = inputs = places(rng)
    body = "tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {%f1, %f2}], {%r5, %r6};"
    [out] = outputs([job(body, array, inputs, sync, texture={"address": mode})], tmp_path)
    at = np.floor(x).astype(int) + u, np.floor(y).astype(int) + v
    np.testing.assert_array_equal(out.view(np.float32), texel(array[0], *at, mode))


def test_vector_registers_hold_coordinates_and_texels(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    array = rng.standard_normal((1, 8, 8, 4)).astype(np.float32)
    x, y, _, _ = inputs = places(rng)
    body = """.reg .v2 .f32 where; .reg .v4 .f32 texel; mov.f32 where.x, %f1; mov.f32 where.y, %f2;
tex.2d.v4.f32.f32 texel, [%l1, where]; mov.b32 %r1, texel.r; mov.b32 %r2, texel.g;
mov.b32 %r3, texel.b; mov.b32 %r4, texel.a;"""
    [out] = outputs([job(body, array, inputs, texture={"address": CLAMP})], tmp_path)
    at = np.floor(x).astype(int), np.floor(y).astype(int)
    np.testing.assert_array_equal(out.view(np.float32), texel(array[0], *at, CLAMP))


@pytest.mark.parametrize("mode", [WRAP, MIRROR])
def test_offset_counts_texels_of_normalized_coordinates(mode: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    array = rng.standard_normal((1, 8, 8, 1)).astype(np.float32)
    x, y, u, v = places(rng)
    body = "tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {%f1, %f2}], {%r5, %r6};"
    texture = {"address": mode, "flags": NORMALIZED}
    scaled = (x / np.float32(8), y / np.float32(8), u, v)
    [out] = outputs([job(body, array, scaled, texture=texture)], tmp_path)
    at = np.floor(scaled[0] * 8).astype(int) + u, np.floor(scaled[1] * 8).astype(int) + v
    np.testing.assert_array_equal(out.view(np.float32)[:, :1], texel(array[0], *at, mode))


def test_offset_moves_the_filter(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    array = rng.standard_normal((1, 8, 8, 2)).astype(np.float32)
    x, y, _, _ = inputs = places(rng)
    body = "tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {%f1, %f2}], {2, -3};"
    [out] = outputs([job(body, array, inputs, texture={"filter": LINEAR})], tmp_path)
    expected = between(array[0], x + np.float32(2), y - np.float32(3))
    np.testing.assert_allclose(out.view(np.float32)[:, :2], expected, atol=1e-5)


def test_offset_of_one_and_three_dimensions_and_of_layers(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    row = rng.standard_normal((1, 1, 8, 1)).astype(np.float32)
    solid = rng.standard_normal((8, 8, 8, 1)).astype(np.float32)
    x, y, u, v = inputs = places(rng)
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    jobs = [
        job(
            "tex.1d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {%f1}], {%r5};",
            row,
            inputs,
            dimensions=1,
        ),
        job(
            "tex.3d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {%f1, %f2, 0f40200000, %f1}],"
            "{%r5, %r6, 3, %r5};",
            solid,
            inputs,
            dimensions=3,
        ),
        job(
            "tex.a2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {5, %f1, %f2, %f2}], {%r5, %r6};",
            solid,
            inputs,
            flags=LAYERED,
        ),
        job(
            "tex.a2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {5, %f1, %f2, %f2}],"
            "{%r5, %r6, %r6, %r6};",
            solid,
            inputs,
            flags=LAYERED,
        ),
    ]
    results = [out.view(np.float32)[:, :1] for out in outputs(jobs, tmp_path)]
    np.testing.assert_array_equal(results[0], texel(row[0], i + u, 0 * i, CLAMP))
    np.testing.assert_array_equal(results[1], texel(solid[5], i + u, j + v, CLAMP))
    np.testing.assert_array_equal(results[2], texel(solid[5], i + u, j + v, CLAMP))
    np.testing.assert_array_equal(results[3], results[2])


def test_gather_with_offset(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    array = rng.standard_normal((1, 8, 8, 4)).astype(np.float32)
    x, y, u, v = inputs = places(rng)
    body = "tld4.b.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {%f1, %f2}], {%r5, %r6};"
    [out] = outputs([job(body, array, inputs, flags=GATHER)], tmp_path)
    i = np.floor(x.astype(np.float64) - 0.5).astype(int) + u
    j = np.floor(y.astype(np.float64) - 0.5).astype(int) + v
    corners = [(i, j + 1), (i + 1, j + 1), (i + 1, j), (i, j)]
    expected = np.stack([texel(array[0], *c, CLAMP)[:, 2] for c in corners], axis=1)
    np.testing.assert_array_equal(out.view(np.float32), expected)


def test_texels_become_halves(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    array = (rng.standard_normal((1, 8, 8, 4)) * 1000).astype(np.float32)
    bytes_ = rng.integers(0, 256, (1, 8, 8, 4)).astype(np.uint8)
    x, y, _, _ = inputs = places(rng)
    four = "tex.2d.v4.f16.f32 {%h1, %h2, %h3, %h4}, [%l1, {%f1, %f2}];"
    four += "mov.b32 %r1, {%h1, %h2}; mov.b32 %r2, {%h3, %h4};"
    pairs = "tex.2d.v2.f16x2.f32 {%r1, %r2}, [%l1, {%f1, %f2}];"
    jobs = [job(body, a, inputs) for body in (four, pairs) for a in (array, bytes_)]
    expected = [array[0].astype(np.float16), (bytes_[0] / np.float32(255)).astype(np.float16)]
    i, j = np.floor(x).astype(int), np.floor(y).astype(int)
    for n, out in enumerate(outputs(jobs, tmp_path)):
        halves = out.view(np.float16)[:, :4]
        np.testing.assert_array_equal(halves, texel(expected[n % 2], i, j, CLAMP))


def test_texels_are_resident(tmp_path: Path) -> None:
    array = np.full((1, 8, 8, 1), 7, np.uint32)
    inputs = places(np.random.default_rng(7))
    body = "tex.2d.v4.u32.f32 {%r1, _, _, _}|%p1, [%l1, {%f1, %f2}]; selp.u32 %r2, 9, 8, %p1;"
    [out] = outputs([job(body, array, inputs, texture={"flags": AS_INTEGER})], tmp_path)
    np.testing.assert_array_equal(out, [[7, 9, 0, 0]] * THREADS)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {%f1, %f2}], %f3;", "comparisons"),
        ("tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, {%f1, %f2}], {1, 2}, %f3;", "comparisons"),
        ("tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [%l1, %l1, {%f1, %f2}];", "samplers"),
        ("tex.2dms.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%l1, {%r5, %r6, %r6, %r6}];", "tex.2dms"),
        ("txq.force_unnormalized_coords.b32 %r1, [%l1];", "txq.force_unnormalized_coords"),
    ],
)
def test_form_without_a_meaning_in_cuda_is_refused_by_name(
    form: str, reason: str, tmp_path: Path
) -> None:
    [(what, _, log)] = run_in_child([{"ptx": program(form)}], tmp_path)
    assert what == "error"
    assert reason in log
    assert "line" in log


QUERIES = {
    "width": 24,
    "height": 12,
    "depth": 1,
    "channel_data_type": 0x10D2,
    "channel_order": 0x10B5,
    "normalized_coords": 1,
    "array_size": 0,
    "num_mipmap_levels": 0,
    "num_samples": 0,
    "filter_mode": 1,
    "addr_mode_0": 1,
    "addr_mode_1": 1,
    "addr_mode_2": 1,
}


def queries(names: list[str], opcode: str, array: np.ndarray[Any, Any], **more: Any) -> list[Job]:
    inputs = places(np.random.default_rng(9))
    return [job(f"{opcode}.{name}.b32 %r1, [%l1];", array, inputs, **more) for name in names]


def test_queries_of_a_texture(tmp_path: Path) -> None:
    array = np.zeros((1, 12, 24, 4), np.uint8)
    texture = {"address": MIRROR, "flags": NORMALIZED, "filter": LINEAR}
    found = outputs(queries(list(QUERIES), "txq", array, texture=texture), tmp_path)
    assert {n: int(out[0, 0]) for n, out in zip(QUERIES, found, strict=True)} == QUERIES


def test_queries_of_a_layered_texture_and_of_formats(tmp_path: Path) -> None:
    layers = np.zeros((5, 12, 24, 2), np.int16)
    names = ["depth", "array_size", "channel_data_type", "channel_order", "normalized_coords"]
    texture = {"flags": AS_INTEGER, "address": BORDER}
    jobs = queries([*names, "addr_mode_0"], "txq", layers, texture=texture, flags=LAYERED)
    kinds = [("f4", 0x10DE), ("f2", 0x10DD), ("u4", 0x10DC), ("i1", 0x10D7), ("u2", 0x10DB)]
    for kind, _ in kinds:
        one = np.zeros((1, 4, 4, 1), np.dtype(kind))
        jobs += queries(["channel_data_type"], "txq", one, texture=texture)
    found = [int(out[0, 0]) for out in outputs(jobs, tmp_path)]
    assert found == [1, 5, 0x10D8, 0x10B2, 0, 4, *(number for _, number in kinds)]


def test_queries_of_a_surface(tmp_path: Path) -> None:
    array = np.zeros((6, 12, 24, 1), np.uint16)
    names = [
        "width",
        "height",
        "depth",
        "channel_data_type",
        "channel_order",
        "array_size",
        "memory_layout",
    ]
    solid = queries(names, "suq", array, texture=None, flags=SURFACE, dimensions=3)
    layers = queries(["depth", "array_size"], "suq", array, texture=None, flags=SURFACE | LAYERED)
    found = [int(out[0, 0]) for out in outputs(solid + layers, tmp_path)]
    assert found == [24, 12, 6, 0x10DB, 0x10B0, 0, 0, 1, 6]


def test_query_of_another_object_faults(tmp_path: Path) -> None:
    array = np.zeros((1, 8, 8, 1), np.uint16)
    inputs = places(np.random.default_rng(10))
    wrong = [
        job("suq.width.b32 %r1, [%l1];", array, inputs),
        job("mov.u64 %l1, 64; txq.width.b32 %r1, [%l1];", array, inputs),
    ]
    for one in wrong:
        [(what, code, _)] = run_jobs([one], tmp_path)
        assert (what, code) == ("error", 700)


def test_derivatives_of_a_cube_are_accepted(tmp_path: Path) -> None:
    array = np.arange(6 * 16, dtype=np.float32).reshape(6, 4, 4, 1)
    inputs = places(np.random.default_rng(11))
    zeros = "{%f3, %f3, %f3, %f3}"
    body = f"""mov.f32 %f3, 0.0; mov.f32 %f4, 1.0; mov.f32 %f5, 0.1;
tex.grad.cube.v4.f32.f32 {{%r1, %r2, %r3, %r4}}, [%l1, {{%f4, %f5, %f5, %f3}}], {zeros}, {zeros};"""
    made = job(body, array, inputs, texture={"flags": NORMALIZED}, flags=CUBE)
    [out] = outputs([made], tmp_path)
    assert set(out.view(np.float32)[:, 0]) == {5.0}
