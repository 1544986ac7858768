"""Kernels that aim at memory outside of the kernel's: each is refused or faults its context."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.softgpu.driver import run_in_child

INVALID_PTX, ILLEGAL_ADDRESS, STACK_ERROR, NOT_SUPPORTED = 218, 700, 714, 801
HEAD = ".version 8.8\n.target sm_120a\n.address_size 64\n"
REGISTERS = (
    ".reg .b32 %r<12>; .reg .b64 %l<12>, %out; .reg .f32 %f<9>; .reg .pred %p<3>;\n"
    ".shared .align 64 .b8 s[64];\n"
)


def kernel(body: str, before: str = "", parameter: str = ".param .u64 p") -> str:
    """Return a module with the declarations `before` and kernel k; %out is its output array."""
    return (
        f"{HEAD}{before}\n.visible .entry k({parameter}) {{\n{REGISTERS}"
        f"ld.param.u64 %out, [p];\n{body}\nret; }}\n"
    )


def function(parameters: str, body: str) -> str:
    return f".func f({parameters}) {{\n{REGISTERS}{body}\nret; }}\n"


PASSED = ".param .b64 a; st.param.b64 [a], %out; call f, (a);"
"""A call of f with the address of the output array."""
STORED = "ld.param.u64 %out, [a]; st.global.u64 [%out], %l1;"

ATTACKS = {
    "atomics on words behind a kernel parameter": kernel(
        "".join(
            f"atom.param.exch.b64 %l1, [p+{8 * i}], 0; st.global.u64 [%out+{8 * i}], %l1;\n"
            for i in range(1, 64)
        )
    ),
    "a reduction before a kernel parameter": kernel("red.param.add.u64 [p+-64], 1;"),
    "compare-and-swap across the end of a parameter": kernel(
        "atom.param.cas.b64 %l1, [p+4], 0, 1; st.global.u64 [%out], %l1;"
    ),
    "a barrier object behind a kernel parameter": kernel(
        "mbarrier.arrive.param.b64 %l1, [p+256]; st.global.u64 [%out], %l1;"
    ),
    "a barrier object behind a parameter of a function": kernel(
        PASSED, function(".param .b64 a", "mbarrier.init.b64 [a+4096], 9;")
    ),
    "an asynchronous copy from behind a parameter of a function": kernel(
        PASSED,
        function(
            ".param .b64 a",
            "cp.async.ca.shared.global [s], [a+256], 16; ld.shared.u64 %l1, [s];" + STORED,
        ),
    ),
    "atomics behind a parameter of a function": kernel(
        PASSED, function(".param .b64 a", "atom.param.exch.b64 %l1, [a+128], 0;" + STORED)
    ),
    "a load behind a kernel parameter in a register": kernel(
        "ld.param.u64 %l1, [q+1024]; st.global.u64 [%out], %l1;",
        parameter=".param .u64 p, .reg .u64 q",
    ),
    "a load behind a kernel parameter in local memory": kernel(
        "ld.param.u64 %l1, [q+1024]; st.global.u64 [%out], %l1;",
        parameter=".param .u64 p, .local .u64 q",
    ),
    "a local variable passed for a large parameter": kernel(
        ".local .b8 v[4096]; call f, (v);",
        function(".param .b8 a[4096]", "ld.param.u64 %l1, [a+2048]; st.param.u64 [a+3000], %l1;"),
    ),
    "a shared variable passed for a large parameter": kernel(
        "call f, (s);", function(".param .b8 a[64]", "st.param.u64 [a+56], 1;")
    ),
    "the address of a parameter of a function": kernel(
        PASSED, function(".param .b64 a", "mov.u64 %l1, a;" + STORED)
    ),
    "more matrix registers than a fragment has": kernel(
        "mma.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, "
        "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, {%r1,%r2,%r3,%r4}, {%f1,%f2,%f3,%f4};"
    ),
    "a parameter of a function that is larger than a stack": kernel(
        ".param .b8 q[268435456]; st.param.u64 [q+4096], 1; call f, (q);",
        function(".param .b8 a[268435456]", "st.param.u64 [a+8192], 2;"),
    ),
    "a vector of 64 bytes across the end of shared memory": kernel(
        "ld.shared.v8.b64 {%l1,%l2,%l3,%l4,%l5,%l6,%l7,%l8}, [s+32]; st.global.u64 [%out], %l8;"
    ),
    "a matrix load from a parameter of a function": kernel(
        PASSED,
        function(
            ".param .b64 a",
            "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [a];"
            + STORED,
        ),
    ),
    "a store in front of shared memory": kernel("st.shared.u32 [s+-4], 1;"),
    "a load behind shared memory": kernel("ld.shared::cta.u32 %r1, [s+64];"),
    "a load behind a local variable": kernel(
        ".local .align 8 .b8 v[16]; ld.local.u64 %l1, [v+16]; st.global.u64 [%out], %l1;"
    ),
    "a load behind a constant": kernel(
        "ld.const.u64 %l1, [c+8]; st.global.u64 [%out], %l1;", ".const .align 8 .b8 c[8] = {1};"
    ),
    "a load whose address wraps": kernel(
        "add.u64 %l2, %out, -8; ld.global.u64 %l1, [%l2+9223372036854775800];"
        "st.global.u64 [%out], %l1;"
    ),
}


def answer(ptx: str, folder: Path) -> object:
    """Return the arrays after kernel k has run, or the error."""
    job = {
        "ptx": ptx,
        "kernel": "k",
        "grid": 1,
        "block": 32,
        "arrays": [np.zeros(64, np.uint64)] * 2,
    }
    return run_in_child([job], folder)[0]


@pytest.mark.parametrize("attack", ATTACKS)
def test_access_outside_of_kernel_memory_is_refused_or_faults(attack: str, tmp_path: Path) -> None:
    result = answer(ATTACKS[attack], tmp_path)
    assert isinstance(result, tuple), f"the kernel ran and stored {result}"
    assert result[1] in (INVALID_PTX, ILLEGAL_ADDRESS, NOT_SUPPORTED), result


def test_recursion_with_large_frames_is_stack_error(tmp_path: Path) -> None:
    """Two hundred calls with 60,000 bytes of parameters each do not fit the stack of a thread."""
    passed = ".param .b8 q[60000]; st.param.u64 [q+16], %l1; call f, (q);"
    recursive = (
        ".func f(.param .b8 a[60000]);\n.func f(.param .b8 a[60000]) {\n"
        f"{REGISTERS}ld.param.u64 %l1, [a+16]; add.u64 %l1, %l1, 1;\n{passed}\n"
        "st.param.u64 [a+24], %l1; ret; }\n"
    )
    result = answer(kernel(f"mov.u64 %l1, 0;\n{passed}", recursive), tmp_path)
    assert isinstance(result, tuple) and result[1] == STACK_ERROR, result
