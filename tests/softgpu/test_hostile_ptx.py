"""Untrusted PTX: invalid input causes a CUDA error with a log; the compiler process survives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.softgpu.driver import run_in_child
from tests.softgpu.test_instructions import kernel

VALID = kernel(
    "add.u32 %d, %a, %b; setp.lt.s32 %q, %a, %b; @%q bra END; shl.b32 %d, %a, %b; "
    "END: cvt.u32.u8 %d, %d;",
    32,
)
WORDS = [
    "ld",
    "st",
    ".global",
    ".b32",
    "%d",
    "%rd9",
    "[%p1]",
    "{",
    "}",
    "0x",
    "-",
    "@!",
    "call",
    "bar.sync",
    ",,",
    ".param",
    "\x01",
    "é",
    "call (%a), k, (%b)",
    "brx.idx",
]
COMPILER_FAILED = 221
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def mutate(rng: random.Random) -> str:
    text = VALID
    for _ in range(rng.randint(1, 4)):
        at, end = sorted((rng.randrange(len(text)), rng.randrange(len(text))))
        text = rng.choice(
            [
                text[:at] + rng.choice(WORDS) + text[at:],
                text[:at] + text[min(end, at + 12) :],
                text[:at] + text[at : at + 20] + text[at:],
            ]
        )
    return text


def test_mutated_programs_fail_without_crash(tmp_path: Path) -> None:
    rng = random.Random(20261121)
    results = run_in_child([{"ptx": mutate(rng)} for _ in range(150)] + [{"ptx": VALID}], tmp_path)
    assert results[-1] == [], "a valid program must translate after 150 invalid ones"
    assert not [r for r in results if r and (r[1] == COMPILER_FAILED or "process" in r[2])], (
        "the compiler process ended, or the emitted C was invalid"
    )
    assert sum(1 for r in results if r) > 75, "too few mutations are invalid"


ABSURD = {
    "nothing": "",
    "a lone directive": ".version",
    "braces": "{" * 100_000,
    "nested scopes": HEAD + ".visible .entry k() {" + "{" * 10_000,
    "four billion registers": HEAD + ".visible .entry k() { .reg .b32 %r<4000000000>; ret; }",
    "an array that overflows": HEAD + ".global .b8 x[18446744073709551615][2];",
    "a row that overflows": HEAD + ".global .u32 x[][4294967296][1073741824] = {};",
    "a row larger than a variable": HEAD + ".extern .global .b8 x[][4294967296][2];",
    "rows behind the end": HEAD + ".global .u32 x[1][2] = {{1}, {2}};",
    "a gigabyte of stack": HEAD + ".visible .entry k() { .local .align 8 .b8 x[1073741824]; ret; }",
    "a nested initializer": HEAD + ".global .u32 x = " + "{" * 1000,
    "a parameter read past its end": HEAD
    + ".visible .entry k(.param .u64 p) { .reg .b64 %x; ld.param.u64 %x, [p+65536]; ret; }",
    "a name that is C": HEAD + ".visible .entry k() { .reg .b32 %\"; system('x'); //; ret; }",
}


@pytest.mark.parametrize("case", ABSURD)
def test_absurd_program_is_an_error(case: str, tmp_path: Path) -> None:
    result = run_in_child([{"ptx": ABSURD[case]}], tmp_path)[0]
    refused = bool(result) and result[0] == "error" and "process" not in result[2]
    assert refused or (case == "a gigabyte of stack" and result == []), result
