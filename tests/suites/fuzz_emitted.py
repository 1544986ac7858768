"""Fuzz target `emitted`: runs what the translator emits for random kernels between guard pages.

A kernel has random accesses (all forms of tests/softgpu/access_forms.py in all state spaces,
through registers, variables and parameters) in random control flow. softgpu-probe compiles its C
with AddressSanitizer and runs it with addresses at, before and beyond the limits of all memory. An
access may only return or fault the kernel. A signal, a changed canary or a report is a finding.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from deploy.supervisor import SOFTGPU
from tests.softgpu.access_forms import (
    DECLARATIONS,
    ELEMENT_BYTES,
    FAR,
    FORMS,
    LOAD_PARAMETERS,
    LOCAL,
    LOCKSTEP_FORMS,
    M64,
    OUTPUT,
    PARAMETER_BYTES,
    PARAMETERS,
    REGISTERED,
    REGISTERED_BYTES,
    REGISTERS,
    SHARED_BYTES,
    SPACES,
    VALUES,
    VARIABLE_BYTES,
    VARIABLES,
    WINDOW,
    WINDOW_BYTES,
    Form,
)

PROBE = SOFTGPU / "softgpu-probe"
KERNELS = 6
"""Kernels of one module."""
RUNS = 1000
"""Runs of one kernel, each with other addresses."""
STATEMENTS = 14
MAX_DEPTH = 3
MODES = ("serial", "lockstep", "called")
OWN_REGISTERS = """.reg .b64 %b, %t<6>; .reg .b32 %i<9>, %thread; .reg .pred %q<9>;
.shared .align 64 .b8 s[64];
"""
OWN_VALUES = """ld.param.b64 %b, [case]; mov.u32 %thread, %tid.x; mov.u64 %l1, 0; mov.u64 %l2, 0;
mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; mov.f32 %f1, 0f3f800000;
mov.b16 %h1, 1; mov.u64 %t1, %a; mov.u64 %t2, %b; mov.u64 %t3, %a; mov.u64 %t4, %window;
"""
BASES = (WINDOW, WINDOW + WINDOW_BYTES, WINDOW + LOCAL, REGISTERED, REGISTERED + REGISTERED_BYTES)
EDGES = (0, SHARED_BYTES, VARIABLE_BYTES, 1 << 31, 1 << 32, 1 << 63, FAR)
SAFE_OFFSETS = (0, 32, 64, 128, 256)
STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 4096)


class KernelGenerator:
    """Generator of one kernel. The same random numbers give the same kernel."""

    def __init__(self, rng: random.Random, mode: str) -> None:
        self.rng = rng
        self.mode = mode
        self.labels = 0
        self.counters = 0
        lockstep = mode == "lockstep"
        self.forms = FORMS + LOCKSTEP_FORMS if lockstep else FORMS
        self.risk = rng.choice((0.02, 0.05, 0.2))

    def near(self, value: int) -> int:
        step = self.rng.choice(STEPS)
        return value + self.rng.choice((-2, -1, 0, 0, 1, 2)) * step

    def offset(self) -> int:
        """Return an offset: mostly a small aligned one, so that kernels reach later accesses."""
        if self.rng.random() > self.risk:
            return self.rng.choice(SAFE_OFFSETS)
        if self.rng.random() < 0.5:
            return self.rng.choice((8, 16, -8, -64, 56, 4088))
        return self.near(self.rng.choice(EDGES)) * self.rng.choice((1, 1, -1))

    def where(self, form: Form, space: str) -> str:
        """Return an address operand."""
        plain = space.split(":", maxsplit=1)[0]
        if plain in VARIABLES and self.rng.random() < 0.3:
            limit = VARIABLE_BYTES - form.size
            offset = 0 if self.rng.random() > self.risk else self.near(limit)
            return f"[{VARIABLES[plain]}+{offset}]"
        register = "%s" if plain == "shared" else self.rng.choice(("%a", "%b", "%t1", "%t2", "%t3"))
        return f"[{register}+{self.offset()}]"

    def access(self) -> str:
        form = self.rng.choice(self.forms)
        space = self.rng.choice(form.spaces or SPACES)
        if space == "const" and form.name.startswith("st"):
            space = "global"
        text = form.text.format(space=f".{space}" if space else "", where=self.where(form, space))
        if form.name not in ELEMENT_BYTES and ".sync" not in text and self.rng.random() < 0.2:
            first, *rest = text.split(";", maxsplit=1)
            text = f"@%q8 {first};" + "".join(rest)
        return text + "\n"

    def group(self) -> str:
        """Return accesses of one size through one register, which one check may cover."""
        space = self.rng.choice(("", ".global", ".shared"))
        register = "%s" if space == ".shared" else self.rng.choice(("%a", "%b", "%t1"))
        bits = self.rng.choice((8, 16, 32, 64))
        text = ""
        for i in range(self.rng.randint(2, 5)):
            at = f"[{register}+{self.offset()}]"
            value = f"%l{i + 3}" if bits == 64 else f"%r{i + 3}"
            store = self.rng.random() < 0.4
            text += (
                f"st{space}.u{bits} {at}, {value};"
                if store
                else f"ld{space}.u{bits} {value}, {at};"
            )
        return text.replace("%r8", "%r7").replace("%r9", "%r7") + "\n"

    def row(self) -> str:
        """Return accesses of consecutive threads."""
        bits = self.rng.choice((8, 32, 64))
        value = "%l3" if bits == 64 else "%r3"
        risky = self.rng.random() < self.risk
        scale = self.rng.choice((1, 16, 1 << 20, (1 << 31) - 1)) if risky else bits // 8
        base = self.rng.choice(("%a", "%b"))
        return (
            f"mul.wide.u32 %t5, %thread, {scale}; add.u64 %t1, {base}, %t5;\n"
            f"ld.global.u{bits} {value}, [%t1+{self.offset()}];\n"
            f"st.global.u{bits} [%t1+{self.offset()}], {value};\n"
        )

    def arithmetic(self) -> str:
        to, a = self.rng.choice(("%t1", "%t2", "%t3")), self.rng.choice(("%a", "%b", "%t2"))
        risky = self.rng.random() < self.risk
        step = self.near(self.rng.choice(EDGES)) & M64 if risky else self.rng.choice(SAFE_OFFSETS)
        if not risky:
            return f"add.u64 {to}, {a}, {step};\n"
        return (
            self.rng.choice(
                (
                    f"add.u64 {to}, {a}, {step};",
                    f"sub.u64 {to}, {a}, {step};",
                    f"xor.b64 {to}, {a}, {step};",
                    f"cvt.u64.u32 %t5, %thread; mad.lo.u64 {to}, %t5, {step}, {a};",
                    f"shl.b64 {to}, {a}, 1;",
                    f"add.u32 %s, %s, {step & 0xFFFFFFFF};",
                    f"mad.lo.u32 %s, %thread, {step & 0xFFFF}, %s;",
                    f"cvta.to.global.u64 {to}, {a};",
                    f"cvta.shared.u64 {to}, {a};",
                    f"mov.u64 {to}, g;",
                )
            )
            + "\n"
        )

    def loop(self, depth: int) -> str:
        if self.counters >= 7:
            return self.access()
        self.counters += 1
        self.labels += 1
        i, label = self.counters, f"$L{self.labels}"
        body = self.statements(depth + 1, 3)
        return (
            f"mov.u32 %i{i}, 0;\n{label}:\n{body}add.u32 %i{i}, %i{i}, 1;\n"
            f"setp.lt.u32 %q{i}, %i{i}, {self.rng.randint(1, 4)};\n@%q{i} bra {label};\n"
        )

    def branch(self, depth: int) -> str:
        self.labels += 1
        label = f"$S{self.labels}"
        uniform = self.mode == "lockstep" or self.rng.random() < 0.3
        value = "%i8" if uniform else "%thread"
        return (
            f"setp.lt.u32 %q8, {value}, {self.rng.choice((0, 1, 7, 31))};\n@%q8 bra {label};\n"
            f"{self.statements(depth + 1, 3)}{label}:\n"
        )

    def statements(self, depth: int, count: int) -> str:
        text = ""
        for _ in range(count):
            kind = self.rng.random()
            if kind < 0.45 or depth >= MAX_DEPTH:
                text += self.access()
            elif kind < 0.6:
                text += self.group()
            elif kind < 0.7:
                text += self.row()
            elif kind < 0.82:
                text += self.arithmetic()
            elif kind < 0.91:
                text += self.loop(depth)
            else:
                text += self.branch(depth)
        return text

    def body(self) -> str:
        barrier = "bar.sync 0;\n" if self.mode == "lockstep" else ""
        return (
            f"{REGISTERS}{OWN_REGISTERS}{LOAD_PARAMETERS}{VALUES}{OWN_VALUES}"
            f"mov.u32 %i8, 3; setp.ne.u32 %q8, %thread, 1;\n{barrier}"
            f"{self.statements(0, STATEMENTS)}st.global.u64 [%out], %l1; ret; }}\n"
        )

    def kernel(self, name: str) -> str:
        if self.mode != "called":
            return f".visible .entry {name}({PARAMETERS}) {{\n{self.body()}"
        passed = "".join(
            f".param .b64 {p}; ld.param.b64 %l, [{p[1:]}]; st.param.b64 [{p}], %l;\n"
            for p in ("xa", "xout", "xcase")
        )
        declared = PARAMETERS
        if self.rng.random() < 0.1:  # an array without a size: each access of it must be refused
            declared = PARAMETERS.replace(f"[{PARAMETER_BYTES}]", "[]")
        return (
            f".func f_{name}({declared}) {{\n{self.body()}"
            f".visible .entry {name}({PARAMETERS}) {{\n.reg .b64 %l;\n{passed}"
            f".param .align 16 .b8 w[{PARAMETER_BYTES}];\n"
            f"call f_{name}, (xa, xout, xcase, w);\nret; }}\n"
        )

    def address(self) -> int:
        """Return an address inside of the memory, near a limit, or any number."""
        if self.rng.random() < 0.5:
            return WINDOW + 64 * self.rng.randint(0, 32)
        if self.rng.random() < 0.1:
            return self.rng.getrandbits(64)
        if self.rng.random() < 0.25:
            return self.near(self.rng.choice(EDGES)) & M64
        return (self.near(self.rng.choice(BASES)) + self.rng.choice((0, 0, *EDGES))) & M64

    def runs(self, name: str, count: int) -> Iterator[str]:
        """Yield lines for the probe: kernel, threads and parameters."""
        for _ in range(count):
            threads = self.rng.choice((32, 64) if self.mode == "lockstep" else (1, 5, 32, 64))
            yield (f"{name} {threads} {self.address():x} {OUTPUT:x} {self.address():x}" + " 0" * 9)


class Finding(Exception):
    """A kernel that accessed memory without a check."""


def check_module(seed: int, folder: Path, *, planted: bool = False, runs: int = RUNS) -> int:
    """Run the kernels of one module. Return the number of runs that were not refused.

    Raises:
        Finding: if an access was neither checked nor a fault.
    """
    rng = random.Random(seed)
    text = DECLARATIONS
    lines: list[str] = []
    for i in range(KERNELS):
        generator = KernelGenerator(rng, rng.choice(MODES))
        text += generator.kernel(f"k{i}")
        lines += generator.runs(f"k{i}", runs)
    file = folder / f"emitted-{seed}.ptx"
    file.write_text(text)
    options = {"ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:handle_sigbus=0:handle_sigfpe=0"}
    if planted:
        options["SOFTGPU_BOUNDS_DEFINE"] = "SOFTGPU_PLANTED_UNCHECKED"
    done = subprocess.run(
        [str(PROBE), str(file)],
        input="\n".join(lines) + "\n",
        env=os.environ | options,
        capture_output=True,
        text=True,
        check=False,
    )
    answers = done.stdout.splitlines()
    for line, answer in zip(lines, answers, strict=False):
        if not answer.startswith(("done", "fault", "refused")):
            raise Finding(f"{file}: {line}: {answer}")
    if done.returncode or (len(answers) != len(lines) and not text_is_refused(answers)):
        line = lines[len(answers)] if len(answers) < len(lines) else ""
        raise Finding(f"{file}: {line}: the probe ended\n{done.stderr[-3000:]}")
    file.unlink()
    return sum(not answer.startswith("refused") for answer in answers)


def text_is_refused(answers: list[str]) -> bool:
    """Return whether the translator has refused the module as a whole."""
    return len(answers) == 1 and answers[0].startswith("refused")


def fuzz(seconds: int, *, planted: bool = False, seed: int | None = None) -> tuple[int, str]:
    """Run modules for a time. Return the number of runs, and a problem if there is one."""
    folder = Path(tempfile.mkdtemp(prefix="busbar-fuzz-emitted-"))
    first = random.SystemRandom().getrandbits(32) if seed is None else seed
    end = time.monotonic() + seconds
    modules = inputs = 0
    while time.monotonic() < end:
        try:
            inputs += check_module(first + modules, folder, planted=planted)
        except Finding as finding:
            return inputs, f"emitted: {finding}"
        modules += 1
    folder.rmdir()
    print(f"emitted: {inputs} inputs, {modules * KERNELS} kernels, first seed {first}", flush=True)
    if inputs >= modules * KERNELS * RUNS // 2:
        return inputs, ""
    return inputs, f"emitted: only {inputs} of {modules * KERNELS * RUNS} inputs were not refused"
