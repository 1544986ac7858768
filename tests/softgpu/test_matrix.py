"""Matrix instructions, asynchronous copies and packed atomics, compared with NumPy.

The layouts of the fragments are transcribed from the PTX manual.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child

HEAD = ".version 8.7\n.target sm_120a\n.address_size 64\n"
Place = Callable[[int, int], tuple[int, int]]
"""Maps (lane, element) to (row, column)."""


def g(lane: int) -> int:
    return lane // 4


def t(lane: int) -> int:
    return lane % 4


# Layouts from the manual's page of each shape.
A16 = {
    "m16n8k8.f16": lambda lane, i: (g(lane) + (8 if i >= 2 else 0), t(lane) * 2 + i % 2),
    "m16n8k16.f16": lambda lane, i: (
        g(lane) + (8 if i in (2, 3, 6, 7) else 0),
        t(lane) * 2 + i % 2 + (8 if i >= 4 else 0),
    ),
    "m16n8k4.tf32": lambda lane, i: (g(lane) + 8 * i, t(lane)),
    "m16n8k8.tf32": lambda lane, i: (
        g(lane) + (8 if i in (1, 3) else 0),
        t(lane) + (4 if i >= 2 else 0),
    ),
    "m16n8k16.s8": lambda lane, i: (g(lane) + (8 if i >= 4 else 0), t(lane) * 4 + i % 4),
    "m16n8k32.s8": lambda lane, i: (
        g(lane) + (8 if 4 <= i < 8 or i >= 12 else 0),
        t(lane) * 4 + i % 4 + (16 if i >= 8 else 0),
    ),
    "m8n8k16.s8": lambda lane, i: (g(lane), t(lane) * 4 + i),
}
B8 = {
    "m16n8k8.f16": lambda lane, i: (t(lane) * 2 + i, g(lane)),
    "m16n8k16.f16": lambda lane, i: (t(lane) * 2 + i % 2 + (8 if i >= 2 else 0), g(lane)),
    "m16n8k4.tf32": lambda lane, i: (t(lane), g(lane)),
    "m16n8k8.tf32": lambda lane, i: (t(lane) + 4 * i, g(lane)),
    "m16n8k16.s8": lambda lane, i: (t(lane) * 4 + i, g(lane)),
    "m16n8k32.s8": lambda lane, i: (t(lane) * 4 + i % 4 + (16 if i >= 4 else 0), g(lane)),
    "m8n8k16.s8": lambda lane, i: (t(lane) * 4 + i, g(lane)),
}


def result_place(lane: int, i: int) -> tuple[int, int]:
    return g(lane) + (8 if i >= 2 else 0), t(lane) * 2 + i % 2


def e4m3(code: int) -> float:
    e, m = code >> 3 & 15, code & 7
    v = float("nan") if e == 15 and m == 7 else (8 + m) * 2.0 ** (e - 10) if e else m * 2.0**-9
    return -v if code & 128 else v


def e5m2(code: int) -> float:
    return float(np.frombuffer(struct.pack("<H", code << 8), np.float16)[0])


ENCODE: dict[str, Callable[[Any], bytes]] = {
    "f16": lambda v: np.float16(v).tobytes(),
    "bf16": lambda v: np.float32(v).tobytes()[2:],
    "tf32": lambda v: np.float32(v).tobytes(),
    "s8": lambda v: np.int8(v).tobytes(),
    "u8": lambda v: np.uint8(v).tobytes(),
    "e4m3": lambda v: bytes([v]),
    "e5m2": lambda v: bytes([v]),
}
CASES = [
    ("m16n8k8", "f16", "f16", "f32"),
    ("m16n8k16", "f16", "f16", "f32"),
    ("m16n8k16", "f16", "f16", "f16"),
    ("m16n8k8", "bf16", "bf16", "f32"),
    ("m16n8k16", "bf16", "bf16", "f32"),
    ("m16n8k4", "tf32", "tf32", "f32"),
    ("m16n8k8", "tf32", "tf32", "f32"),
    ("m16n8k16", "s8", "s8", "s32"),
    ("m16n8k32", "s8", "u8", "s32"),
    ("m16n8k32", "u8", "u8", "s32"),
    ("m8n8k16", "s8", "s8", "s32"),
    ("m16n8k32", "e4m3", "e4m3", "f32"),
    ("m16n8k32", "e5m2", "e4m3", "f32"),
]


def values(
    kind: str, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return encoded values and the numbers they represent.

    Floating-point types hold small integers, so that sums are exact in any order.
    """
    if kind in ("e4m3", "e5m2"):
        codes = rng.choice([0, 0x38, 0xB8, 0x3C, 0x40, 0xC0, 0x30], shape)
        return codes, np.vectorize(e4m3 if kind == "e4m3" else e5m2)(codes)
    low, high = {"s8": (-128, 128), "u8": (0, 256)}.get(kind, (-8, 9))
    numbers = rng.integers(low, high, shape)
    return numbers, numbers.astype(np.float64)


def fragments(
    place: Any, source: np.ndarray[Any, Any], kind: str, count: int
) -> np.ndarray[Any, Any]:
    data = b"".join(
        ENCODE[kind](source[place(lane, i)]) for lane in range(32) for i in range(count)
    )
    return np.frombuffer(data, np.uint32).copy()


def mma_program(shape: str, d: str, a: str, b: str, counts: tuple[int, int, int]) -> str:
    names = dict(zip("abc", counts, strict=True))
    loads = "".join(
        f"ld.param.u64 %rd1, [{x.upper()}]; mul.lo.u32 %r1, %r0, {4 * n}; cvt.u64.u32 %rd2, %r1; "
        "add.u64 %rd1, %rd1, %rd2;\n"
        + "".join(f"ld.global.b32 %{x}{i}, [%rd1+{4 * i}];\n" for i in range(n))
        for x, n in names.items()
    )
    vector = {x: "{" + ",".join(f"%{x}{i}" for i in range(n)) + "}" for x, n in names.items()}
    result = "{" + ",".join(f"%d{i}" for i in range(counts[2])) + "}"
    stores = (
        f"ld.param.u64 %rd1, [D]; mul.lo.u32 %r1, %r0, {4 * counts[2]}; cvt.u64.u32 %rd2, %r1; "
        "add.u64 %rd1, %rd1, %rd2;\n"
        + "".join(f"st.global.b32 [%rd1+{4 * i}], %d{i};\n" for i in range(counts[2]))
    )
    return (
        HEAD + ".visible .entry k(.param .u64 A, .param .u64 B, .param .u64 C, .param .u64 D)\n{\n"
        ".reg .b32 %r<2>, %a<4>, %b<4>, %c<4>, %d<4>;\n.reg .b64 %rd<3>;\n"
        "mov.u32 %r0, %tid.x;\n"
        f"{loads}mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d} {result}, {vector['a']}, "
        f"{vector['b']}, {vector['c']};\n{stores}ret;\n}}\n"
    )


@pytest.mark.parametrize(("shape", "a", "b", "d"), CASES, ids=lambda w: w)
def test_mma_matches_numpy(tmp_path: Path, shape: str, a: str, b: str, d: str) -> None:
    m, k = int(shape.split("n", maxsplit=1)[0][1:]), int(shape.split("k")[1])
    family = {"bf16": "f16", "u8": "s8", "e4m3": "s8", "e5m2": "s8"}.get(a, a)
    rng = np.random.default_rng(abs(hash((shape, a, b, d))) % 2**32)
    (codes_a, A), (codes_b, B) = values(a, (m, k), rng), values(b, (k, 8), rng)
    C = rng.integers(-100, 100, (m, 8)).astype(np.float64)
    per, elements = 4 // len(ENCODE[a](0)), m // 4
    frag_a = fragments(A16[f"{shape}.{family}"], codes_a, a, m * k // 32)
    frag_b = fragments(B8[f"{shape}.{family}"], codes_b, b, 8 * k // 32)
    kind = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[d]
    frag_c = (
        np.array([C[result_place(lane, i)] for lane in range(32) for i in range(elements)])
        .astype(kind)
        .view(np.uint32)
        .copy()
    )
    counts = (m * k // 32 // per, 8 * k // 32 // per, elements // (2 if d == "f16" else 1))
    job = {
        "ptx": mma_program(shape, d, a, b, counts),
        "kernel": "k",
        "grid": 1,
        "block": 32,
        "arrays": [frag_a, frag_b, frag_c, np.zeros_like(frag_c)],
    }
    (result,) = run_in_child([job], tmp_path)
    assert not isinstance(result, tuple), result
    actual, expected = np.zeros((m, 8)), A @ B + C
    for n, v in enumerate(result[3].view(kind)):
        actual[result_place(n // elements, n % elements)] = float(v)
    np.testing.assert_array_equal(actual, expected.astype(kind).astype(np.float64))


def test_mma_of_doubles_matches_numpy(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    A, B, C = rng.standard_normal((8, 4)), rng.standard_normal((4, 8)), rng.standard_normal((8, 8))
    fa = np.array([A[g(lane), t(lane)] for lane in range(32)])
    fb = np.array([B[t(lane), g(lane)] for lane in range(32)])
    fc = np.array([C[g(lane), t(lane) * 2 + i] for lane in range(32) for i in range(2)])
    ptx = HEAD + (
        ".visible .entry k(.param .u64 A, .param .u64 B, .param .u64 C, .param .u64 D)\n{\n"
        ".reg .b32 %r<2>; .reg .b64 %rd<9>; .reg .f64 %f<7>;\n"
        "mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 8; mul.wide.u32 %rd2, %r0, 16;\n"
        "ld.param.u64 %rd3, [A]; add.u64 %rd3, %rd3, %rd1; ld.global.f64 %f0, [%rd3];\n"
        "ld.param.u64 %rd4, [B]; add.u64 %rd4, %rd4, %rd1; ld.global.f64 %f1, [%rd4];\n"
        "ld.param.u64 %rd5, [C]; add.u64 %rd5, %rd5, %rd2; ld.global.v2.f64 {%f2, %f3}, [%rd5];\n"
        "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%f4, %f5}, {%f0}, {%f1}, {%f2, %f3};\n"
        "ld.param.u64 %rd6, [D]; add.u64 %rd6, %rd6, %rd2; st.global.v2.f64 [%rd6], {%f4, %f5};\n"
        "ret;\n}\n"
    )
    (result,) = run_in_child(
        [
            {
                "ptx": ptx,
                "kernel": "k",
                "grid": 1,
                "block": 32,
                "arrays": [fa, fb, fc, np.zeros_like(fc)],
            }
        ],
        tmp_path,
    )
    actual = np.array(
        [[result[3][(r * 4 + c // 2) * 2 + c % 2] for c in range(8)] for r in range(8)]
    )
    np.testing.assert_allclose(actual, A @ B + C, rtol=1e-13)


def copy_of_matrices(count: int, transposed: bool) -> str:
    """Return a kernel that copies X to Y by fragments, which it also stores in F."""
    regs = ",".join(f"%f{i}" for i in range(count))
    how = f"sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    return HEAD + (
        ".visible .entry k(.param .u64 X, .param .u64 F, .param .u64 Y)\n{\n"
        ".reg .b32 %r<9>, %f<4>; .reg .b64 %rd<9>; .reg .b16 %h<2>;\n"
        ".shared .align 16 .b8 in[512]; .shared .align 16 .b8 out[512];\n"
        "mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [X]; ld.param.u64 %rd2, [F]; "
        "ld.param.u64 %rd3, [Y]; mov.u32 %r1, in; mov.u32 %r2, out;\n"
        + "".join(
            "mul.wide.u32 %rd4, %r0, 2; add.u64 %rd5, %rd1, %rd4; "
            f"ld.global.b16 %h0, [%rd5+{64 * i}]; shl.b32 %r3, %r0, 1; add.u32 %r4, %r1, %r3; "
            f"st.shared.b16 [%r4+{64 * i}], %h0;\n"
            for i in range(2 * count)
        )
        + "bar.warp.sync 0xffffffff;\n"
        f"and.b32 %r5, %r0, {8 * count - 1}; shl.b32 %r5, %r5, 4; add.u32 %r6, %r1, %r5; "
        "add.u32 %r7, %r2, %r5;\n"
        f"ldmatrix.{how} {{{regs}}}, [%r6];\nstmatrix.{how} [%r7], {{{regs}}};\n"
        "bar.warp.sync 0xffffffff;\n"
        f"mul.wide.u32 %rd6, %r0, {4 * count}; add.u64 %rd7, %rd2, %rd6;\n"
        + "".join(f"st.global.b32 [%rd7+{4 * i}], %f{i};\n" for i in range(count))
        + "".join(
            "mul.wide.u32 %rd4, %r0, 2; add.u64 %rd5, %rd3, %rd4; shl.b32 %r3, %r0, 1; "
            f"add.u32 %r4, %r2, %r3; ld.shared.b16 %h1, [%r4+{64 * i}]; "
            f"st.global.b16 [%rd5+{64 * i}], %h1;\n"
            for i in range(2 * count)
        )
        + "ret;\n}\n"
    )


@pytest.mark.parametrize(("count", "transposed"), list(itertools.product((1, 2, 4), (False, True))))
def test_ldmatrix_and_stmatrix_match_layout(tmp_path: Path, count: int, transposed: bool) -> None:
    """ldmatrix loads fragments, which are stored; stmatrix writes them to another location."""
    x = np.arange(64 * count, dtype=np.uint16) * 257 + 3
    job = {
        "ptx": copy_of_matrices(count, transposed),
        "kernel": "k",
        "grid": 1,
        "block": 32,
        "arrays": [x, np.zeros(32 * count, np.uint32), np.zeros_like(x)],
    }
    (result,) = run_in_child([job], tmp_path)
    matrices = x.reshape(count, 8, 8)
    for lane, j in itertools.product(range(32), range(count)):
        m = matrices[j].T if transposed else matrices[j]
        expected = int(m[g(lane), t(lane) * 2]) | int(m[g(lane), t(lane) * 2 + 1]) << 16
        assert int(result[1][lane * count + j]) == expected, (lane, j)
    np.testing.assert_array_equal(result[2], x)


def test_movmatrix_transposes(tmp_path: Path) -> None:
    x = np.arange(64, dtype=np.uint16)
    ptx = HEAD + (
        ".visible .entry k(.param .u64 X, .param .u64 Y)\n{\n.reg .b32 %r<3>; .reg .b64 %rd<4>;\n"
        "mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4;\n"
        "ld.param.u64 %rd2, [X]; add.u64 %rd2, %rd2, %rd1; ld.global.b32 %r1, [%rd2]; "
        "movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;\n"
        "ld.param.u64 %rd3, [Y]; add.u64 %rd3, %rd3, %rd1; st.global.b32 [%rd3], %r2;\nret;\n}\n"
    )
    (result,) = run_in_child(
        [{"ptx": ptx, "kernel": "k", "grid": 1, "block": 32, "arrays": [x, np.zeros_like(x)]}],
        tmp_path,
    )
    np.testing.assert_array_equal(result[1].reshape(8, 8), x.reshape(8, 8).T)


@pytest.mark.parametrize(("bytes_", "read"), [(4, 4), (8, 8), (16, 16), (16, 5), (16, 0)])
def test_asynchronous_copy_zero_fills(tmp_path: Path, bytes_: int, read: int) -> None:
    x = np.arange(1, 65, dtype=np.uint8)
    kind = "cg" if bytes_ == 16 else "ca"
    ptx = HEAD + (
        ".visible .entry k(.param .u64 X, .param .u64 Y)\n{\n.reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
        ".shared .align 16 .b8 s[16];\n"
        "ld.param.u64 %rd1, [X]; ld.param.u64 %rd2, [Y]; mov.u32 %r0, s; mov.u32 %r3, 0xdeadbeef;\n"
        + "".join(f"st.shared.b32 [%r0+{i}], %r3;\n" for i in range(0, 16, 4))
        + f"mov.u32 %r2, {read}; cp.async.{kind}.shared.global [%r0], [%rd1+16], {bytes_}, %r2;\n"
        "cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;\n"
        + "".join(
            f"ld.shared.b32 %r1, [%r0+{i}]; st.global.b32 [%rd2+{i}], %r1;\n"
            for i in range(0, 16, 4)
        )
        + "ret;\n}\n"
    )
    (result,) = run_in_child(
        [{"ptx": ptx, "kernel": "k", "grid": 1, "block": 1, "arrays": [x, np.zeros(16, np.uint8)]}],
        tmp_path,
    )
    expected = (bytes(x[16 : 16 + read]) + bytes(bytes_ - read)).ljust(16, b"?")
    assert (
        bytes(result[1])[:bytes_] == expected[:bytes_]
        and bytes(result[1])[bytes_:] == (b"\xef\xbe\xad\xde" * 4)[bytes_:]
    )


def elementwise(body: str, inputs: int, in_bytes: int, out_bytes: int, registers: str) -> str:
    loads = "".join(
        f"mul.wide.u32 %rd1, %r0, {in_bytes}; ld.param.u64 %rd2, [P{i}]; "
        f"add.u64 %rd2, %rd2, %rd1; ld.global.b{8 * in_bytes} %x{i}, [%rd2];\n"
        for i in range(inputs)
    )
    return HEAD + (
        f".visible .entry k({', '.join(f'.param .u64 P{i}' for i in range(inputs + 1))})\n{{\n"
        f".reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p<3>; {registers}\n"
        "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; "
        f"mad.lo.u32 %r0, %r1, %r2, %r3;\n{loads}{body}\n"
        f"mul.wide.u32 %rd1, %r0, {out_bytes}; ld.param.u64 %rd2, [P{inputs}]; "
        f"add.u64 %rd2, %rd2, %rd1; st.global.b{8 * out_bytes} [%rd2], %y;\nret;\n}}\n"
    )


def test_lop3_sets_predicate(tmp_path: Path) -> None:
    x, y = np.arange(64, dtype=np.uint32), np.full(64, 12, np.uint32)
    body = (
        "setp.eq.u32 %p1, %r0, 3; lop3.or.b32 %r4|%p0, %x0, %x1, 0, 0xc0, %p1; "
        "selp.u32 %r5, 100, 0, %p0; add.u32 %y, %r4, %r5;"
    )
    (result,) = run_in_child(
        [
            {
                "ptx": elementwise(body, 2, 4, 4, ".reg .b32 %x<2>, %y;"),
                "kernel": "k",
                "grid": 2,
                "block": 32,
                "arrays": [x, y, np.zeros_like(x)],
            }
        ],
        tmp_path,
    )
    both = x & y
    np.testing.assert_array_equal(result[2], both + np.where((both != 0) | (x == 3), 100, 0))


def test_packed_and_vector_reductions_are_atomic(tmp_path: Path) -> None:
    ptx = HEAD + (
        ".visible .entry k(.param .u64 H, .param .u64 F)\n{\n.reg .b32 %r<3>; .reg .b64 %rd<3>; "
        ".reg .f32 %f<3>;\n"
        "ld.param.u64 %rd1, [H]; ld.param.u64 %rd2, [F]; mov.u32 %r0, 0x3c004000; "
        "mov.f32 %f0, 0f3F800000; mov.f32 %f1, 0f40000000;\n"
        "red.global.add.noftz.f16x2 [%rd1], %r0;\n"
        "atom.global.add.noftz.f16x2 %r1, [%rd1+4], %r0;\n"
        "red.global.add.v2.f32 [%rd2], {%f0, %f1};\nret;\n}\n"
    )
    (result,) = run_in_child(
        [
            {
                "ptx": ptx,
                "kernel": "k",
                "grid": 4,
                "block": 64,
                "arrays": [np.zeros(4, np.float16), np.zeros(2, np.float32)],
            }
        ],
        tmp_path,
    )
    np.testing.assert_array_equal(result[0], [512, 256, 512, 256])
    np.testing.assert_array_equal(result[1], [256, 512])


@pytest.mark.parametrize(
    "instruction",
    [
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0,%r1}, {%r0,%r1,%r0,%r1}, "
        "{%r0,%r1}, {%r0,%r1,%r0,%r1};",
        "mma.sync.aligned.m16n8k999.row.col.f32.f16.f16.f32 {%r0,%r1,%r0,%r1}, "
        "{%r0,%r1,%r0,%r1}, {%r0,%r1}, {%r0,%r1,%r0,%r1};",
        "mma.sync.aligned.m64n8k16.row.col.f32.f16.f16.f32 {%r0,%r1,%r0,%r1}, {%r0,%r1,%r0,%r1}, "
        "{%r0,%r1}, {%r0,%r1,%r0,%r1};",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0,%r1}, [%r0];",
        "cp.async.ca.shared.global [%r0], [%rd0], 5;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd0], 24, "
        "[%r1];",
        "wgmma.fence.sync.aligned;",
    ],
)
def test_unsupported_matrix_instruction_is_rejected_by_name(
    tmp_path: Path, instruction: str
) -> None:
    ptx = (
        HEAD
        + f".visible .entry k()\n{{\n.reg .b32 %r<2>; .reg .b64 %rd<1>;\n{instruction}\nret;\n}}\n"
    )
    (result,) = run_in_child([{"ptx": ptx}], tmp_path)
    assert isinstance(result, tuple) and result[0] == "error"
    assert instruction.split(".", maxsplit=1)[0] in result[2] or result[1] in (
        218,
        221,
        222,
        801,
    ), result
