"""Every form of memory access x state space x offset, run between guard pages under ASan."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deploy.supervisor import SOFTGPU
from tests.softgpu.access_forms import (
    BATCH,
    DECLARATIONS,
    MODES,
    OUTPUT,
    REGISTERED,
    REGISTERED_BYTES,
    REGISTERS,
    WINDOW,
    WINDOW_BYTES,
    Case,
    cases,
    pattern,
    program,
    refused_parameters,
)

PROBE = SOFTGPU / "softgpu-probe"


def ask(ptx: str, lines: list[str], folder: Path) -> list[str]:
    """Return the answer of the probe to each line."""
    file = folder / "kernels.ptx"
    file.write_text(ptx)
    options = {"ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0"}
    done = subprocess.run(
        [str(PROBE), str(file)],
        input="\n".join(lines) + "\n",
        env=os.environ | options,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    answers = done.stdout.splitlines()
    assert done.returncode == 0 and len(answers) == len(lines), (
        f"the probe ended at {lines[len(answers) : len(answers) + 1]}\n{done.stderr[-4000:]}"
    )
    return answers


def problem(case: Case, answer: str) -> str:
    """Return what is wrong with an answer; an empty string if it is right."""
    kind, _, rest = answer.partition(" ")
    if kind != ("done" if case.valid else "fault"):
        return f"{case.name}: {answer[:80]}, {'done' if case.valid else 'a fault'} was expected"
    if case.valid and bytes.fromhex(rest)[: len(case.result)] != case.result:
        return f"{case.name}: {rest[:16]}, {case.result.hex()} was expected"
    return ""


@pytest.mark.parametrize(
    "mode",
    [pytest.param(mode, marks=[] if mode == "lockstep" else [pytest.mark.long]) for mode in MODES],
)
def test_access_returns_its_bytes_or_faults(mode: str, tmp_path: Path) -> None:
    wanted = cases(mode == "lockstep")
    texts = sorted({c.text for c in wanted})
    index = {text: i for i, text in enumerate(texts)}
    lines = [
        f"k{index[c.text] // BATCH} {c.threads} {c.register:x} {OUTPUT:x} "
        f"{index[c.text] % BATCH:x}" + " 0" * 9
        for c in wanted
    ]
    answers = ask(program(mode, texts), lines, tmp_path)
    problems = [p for c, a in zip(wanted, answers, strict=True) if (p := problem(c, a))]
    assert not problems, f"{len(problems)} of {len(wanted)}:\n" + "\n".join(problems[:20])
    assert len(wanted) > 1000


@pytest.mark.parametrize("mode", ["kernel", "function"])
def test_parameter_access_outside_of_parameter_is_refused(mode: str, tmp_path: Path) -> None:
    wanted = list(refused_parameters())
    file, text = tmp_path / "refused.ptx", DECLARATIONS
    for i, (_, access) in enumerate(wanted):
        body = f"(.param .align 16 .b8 q[64]) {{\n{REGISTERS}.shared .align 64 .b8 s[64];\n{access}"
        if mode == "kernel":
            text += f".visible .entry k{i}{body} ret; }}\n"
        else:
            text += (
                f".func f{i}{body} ret; }}\n.visible .entry k{i}() {{ .param .b8 w[64];\n"
                f"call f{i}, (w); ret; }}\n"
            )
    file.write_text(text)
    command = [str(SOFTGPU / "softgpu-translate"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    parts = done.stdout.split("// kernel k")[1:]
    assert len(parts) == len(wanted)
    accepted = [
        name
        for (name, _), part in zip(wanted, parts, strict=True)
        if not any(
            reason in part
            for reason in (
                "the access is outside of its parameter",
                "parameters are accessed by ld.param and st.param only",
                "needs global, shared or generic memory",
                "is in another state space",
                "lies in .global or .shared::cta",
            )
        )
    ]
    assert not accepted


@pytest.mark.parametrize(
    ("returns", "parameters", "reason"),
    [
        ("", ".param .b8 q[]", "the access is outside of its parameter"),
        ("(.param .b8 q[])", ".param .b64 a", "result q has no size"),
    ],
)
@pytest.mark.parametrize("access", ["ld.param.u64 %l1, [q+OFFSET];", "st.param.u8 [q+OFFSET], 1;"])
@pytest.mark.parametrize("offset", [0, 264, -8])
def test_access_of_parameter_without_size_is_refused(
    returns: str, parameters: str, reason: str, access: str, offset: int, tmp_path: Path
) -> None:
    file = tmp_path / "open.ptx"
    file.write_text(
        f"{DECLARATIONS}.func {returns} f({parameters}) {{\n.reg .b64 %l<2>;\n"
        f"{access.replace('OFFSET', str(offset))} ret; }}\n"
        ".visible .entry k() { .param .b64 x; .param .b64 r;\n"
        f"call {'(r), ' if returns else ''}f, (x); ret; }}\n"
    )
    command = [str(SOFTGPU / "softgpu-translate"), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reason in done.stdout + done.stderr
    assert "softgpu_kernel" not in done.stdout


ROW = """.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out) {
.reg .b32 %r<4>; .reg .b64 %l<8>; .reg .pred %p;
ld.param.u64 %l1, [a]; ld.param.u64 %l2, [b]; mov.u32 %r1, %tid.x; mul.wide.u32 %l3, %r1, SIZE;
add.u64 %l4, %l1, %l3; add.u64 %l5, %l2, %l3;
ld.global.uBITS REGISTER, [%l4+64]; st.global.uBITS [%l5+-64], REGISTER; ret; }
"""


@pytest.mark.parametrize("size", [1, 4, 8])
def test_row_faults_if_one_thread_is_outside(size: int, tmp_path: Path) -> None:
    register = "%l6" if size == 8 else "%r2"
    ptx = DECLARATIONS + ROW.replace("SIZE", str(size)).replace("BITS", str(8 * size)).replace(
        "REGISTER", register
    )
    threads, inside = 32, OUTPUT
    last = WINDOW + WINDOW_BYTES - threads * size
    starts = [
        (WINDOW, inside, True),
        (last, inside, True),
        (last + size, inside, False),
        (last + 64, inside, False),
        (WINDOW - size, inside, False),
        (inside, WINDOW, True),
        (inside, last, True),
        (inside, last + size, False),
        (inside, WINDOW - size, False),
        (-size, inside, False),
        (inside, (1 << 64) - threads * size // 2, False),
    ]
    lines = [
        f"k {threads} {(a - 64) & ((1 << 64) - 1):x} {(b + 64) & ((1 << 64) - 1):x} 0"
        for a, b, _ in starts
    ]
    answers = ask(ptx, lines, tmp_path)
    assert [a.split()[0] for a in answers] == ["done" if ok else "fault" for _, _, ok in starts]
    copied = bytes.fromhex(answers[0].split()[1])[: threads * size]
    assert copied == pattern(0, threads * size)


def test_group_that_begins_before_registered_memory_faults(tmp_path: Path) -> None:
    """The group is larger than the registered memory, in which its second access lies."""
    ptx = (
        f"{DECLARATIONS}.visible .entry k(.param .u64 a, .param .u64 out) {{\n"
        ".reg .b32 %r; .reg .b64 %l; ld.param.u64 %l, [a];\n"
        "ld.global.u32 %r, [%l+-4064]; st.global.u32 [%l+32], %r; ret; }\n"
    )
    inside, before = WINDOW + 4064, REGISTERED + REGISTERED_BYTES - 256
    answers = ask(ptx, [f"k 1 {a:x} {OUTPUT:x}" for a in (inside, before)], tmp_path)
    assert [a.split()[0] for a in answers] == ["done", "fault"]
