"""Cases for the checks of memory accesses: forms of access, state spaces, address forms, offsets.

A case is a block of PTX with one access. Kernels of several modes contain all cases and branch to
one of them. The arenas are those of remoting/softgpu/bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
WINDOW, WINDOW_BYTES = 0x300000000000, 0x10000
REGISTERED, REGISTERED_BYTES = 0x320000000000, 0x1000
SHARED_BYTES, VARIABLE_BYTES, PARAMETER_BYTES = 0x1000, 64, 64
OUTPUT = WINDOW + 0x7000
LOCAL = 0x8000
"""Stacks begin at this offset of the window."""
BATCH = 150
"""Accesses of one kernel: compilers take long for large functions."""
MODES = ("serial", "lockstep", "called")
STORED = 0x1122334455667788
FAR = 0x7FFFFFFFFFFFFFC0
"""A displacement with which addresses wrap at 2**64."""


def pattern(start: int, count: int) -> bytes:
    """Return the bytes with which the probe fills each arena."""
    return bytes((i * 7 + (i >> 8) + 1) & 255 for i in range(start, start + count))


@dataclass(frozen=True)
class Form:
    """A form of access. {space} and {where} are replaced; %l1 is the result."""

    name: str
    text: str
    size: int
    spaces: tuple[str, ...] = ()
    """Empty: all."""
    result: str = "loaded"
    """loaded, stored, or nothing that is compared."""


SHARED_OR_GENERIC = ("", "shared", "shared::cta")
WRITABLE = ("", "global", "shared", "shared::cta", "shared::cluster", "local")
ATOMIC = ("", "global", "shared", "shared::cta", "shared::cluster")
FORMS = [
    Form("ld.b8", "ld{space}.u8 %r1, {where}; cvt.u64.u32 %l1, %r1;", 1),
    Form("ld.b16", "ld{space}.u16 %r1, {where}; cvt.u64.u32 %l1, %r1;", 2),
    Form("ld.b32", "ld{space}.u32 %r1, {where}; cvt.u64.u32 %l1, %r1;", 4),
    Form("ld.b64", "ld{space}.u64 %l1, {where};", 8),
    Form("ld.v2.b64", "ld{space}.v2.u64 {{%l1, %l2}}, {where};", 16),
    Form("ld.v4.b64", "ld{space}.v4.u64 {{%l1, %l2, %l3, %l4}}, {where};", 32),
    Form("ld.v4.b8", "ld{space}.v4.u8 {{%r1, %r2, %r3, %r4}}, {where};", 4, result=""),
    Form("ld.volatile", "ld.volatile{space}.u64 %l1, {where};", 8, WRITABLE),
    Form("ld.relaxed", "ld.relaxed.gpu{space}.u64 %l1, {where};", 8, ATOMIC),
    Form("ldu", "ldu{space}.u64 %l1, {where};", 8, ("", "global")),
    Form("st.b8", "st{space}.u8 {where}, %r9;", 1, WRITABLE, ""),
    Form("st.b64", "st{space}.u64 {where}, %l9; ld{space}.u64 %l1, {where};", 8, WRITABLE,
         "stored"),
    Form("st.v4.b64", "st{space}.v4.u64 {where}, {{%l9, %l9, %l9, %l9}};", 32, WRITABLE, ""),
    Form("st.release", "st.release.gpu{space}.u32 {where}, %r9;", 4, ATOMIC, ""),
    Form("atom.exch", "atom{space}.exch.b64 %l1, {where}, %l9;", 8, ATOMIC),
    Form("atom.cas", "atom{space}.cas.b64 %l1, {where}, %l9, %l9;", 8, ATOMIC),
    Form("atom.cas.b16", "atom{space}.cas.b16 %h1, {where}, %h1, %h1;", 2, ATOMIC, ""),
    Form("atom.v2", "atom{space}.add.v2.f32 {{%f1, %f2}}, {where}, {{%f1, %f2}};", 8,
         ("global",), ""),
    Form("red", "red{space}.add.u32 {where}, %r9;", 4, ATOMIC, ""),
    Form("mbarrier.init", "mbarrier.init{space}.b64 {where}, 4;", 8, SHARED_OR_GENERIC, ""),
    Form("mbarrier.arrive", "mbarrier.arrive{space}.b64 %l1, {where};", 8, SHARED_OR_GENERIC),
    Form("mbarrier.wait", "mbarrier.test_wait{space}.b64 %p1, {where}, %l9;", 8,
         SHARED_OR_GENERIC, ""),
    Form("mbarrier.inval", "mbarrier.inval{space}.b64 {where};", 8, SHARED_OR_GENERIC, ""),
    Form("cp.async from", "cp.async.ca.shared.global [s], {where}, 16; ld.shared.u64 %l1, [s];", 16,
         ("global",)),
    Form("cp.async partly", "cp.async.ca.shared.global [s], {where}, 8, %r8;", 8, ("global",), ""),
    Form("cp.async to", "cp.async.cg.shared.global {where}, [%window], 16;", 16, ("shared",), ""),
    Form("cp.async.bulk from", "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s], "
         "{where}, 16, [s+32]; ld.shared.u64 %l1, [s];", 16, ("global",)),
    Form("cp.async.bulk to", "cp.async.bulk.global.shared::cta.bulk_group {where}, [s], 16;", 16,
         ("global",), ""),
    Form("tensormap.replace", "tensormap.replace.tile.global_address{space}.b1024.b64 {where}, "
         "%l9;", 16, ("", "global", "shared::cta"), ""),
    Form("cp.async arrive", "cp.async.mbarrier.arrive.noinc{space}.b64 {where};", 8,
         ("shared",), ""),
]  # fmt: skip
LOCKSTEP_FORMS = [
    Form("ldmatrix", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r1,%r2,%r3,%r4}}, {where};", 16,
         ("shared",), ""),
    Form("stmatrix", "stmatrix.sync.aligned.m8n8.x1{space}.b16 {where}, {{%r1}};", 16,
         ("shared", "shared::cta", ""), ""),
    Form("wmma.load", "wmma.load.a.sync.aligned.row.m16n16k16{space}.f16 "
         "{{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}}, {where}, 0;", 32, ("shared", "global", ""), ""),
    Form("wmma.store", "wmma.store.d.sync.aligned.row.m16n16k16{space}.f32 {where}, "
         "{{%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}}, 0;", 64, ("shared", "global", ""), ""),
]  # fmt: skip
"""Instructions of a whole warp. wmma accesses elements of 2 or 4 bytes; with stride 0, one row."""

ELEMENT_BYTES = {"wmma.load": 2, "wmma.store": 4, "tensormap.replace": 8}
SPACES = ("", "global", "shared", "shared::cta", "shared::cluster", "local", "const")
VARIABLES = {"shared": "s", "local": "v", "const": "c", "global": "g"}


@dataclass(frozen=True)
class Case:
    """One access: the block of PTX, the parameter that its register gets, and what must happen."""

    name: str
    text: str
    register: int
    valid: bool
    result: bytes = b""

    @property
    def threads(self) -> int:
        return 32 if ".sync." in self.text else 1


def offsets(size: int, limit: int) -> Iterator[tuple[str, int]]:
    """Yield offsets before, at the start, at the last valid place, at the limit and beyond."""
    yield "far before", -(1 << 40)
    yield "before", -size
    yield "start", 0
    yield "last valid", limit - size
    if size > 1:
        yield "misaligned", size // 2
        yield "across the limit", limit - size // 2
    yield "limit", limit
    yield "behind the guard", limit + (1 << 20)
    yield "high bits", 1 << 63


def is_valid(form: Form, offset: int, limit: int) -> bool:
    alignment = ELEMENT_BYTES.get(form.name, form.size)
    return offset % alignment == 0 and 0 <= offset <= limit - form.size


def expected(form: Form, start: int) -> bytes:
    """Return the bytes of %l1 after a valid access at offset `start` of its arena."""
    if form.result == "stored":
        return STORED.to_bytes(8, "little")
    return pattern(start, min(form.size, 8)) if form.result == "loaded" else b""


def through_register(form: Form, space: str) -> Iterator[Case]:
    """Yield cases with a register and displacements, which may wrap."""
    shared = space.startswith("shared")
    arenas = [(0, SHARED_BYTES)] if shared else [(WINDOW, WINDOW_BYTES)]
    if space in ("", "global") and form.name != "cp.async to":
        arenas.append((REGISTERED, REGISTERED_BYTES))
    for base, limit in arenas:
        for displacement in (0, 64, -64, FAR):
            where = f"[{'%s' if shared else '%a'}+{displacement}]"
            for label, offset in offsets(form.size, limit):
                # A shared address has 32 bits: the higher ones are dropped.
                low = (offset + (1 << 31)) % (1 << 32) - (1 << 31) if shared else offset
                yield Case(
                    f"{form.name}{space} {where} {label}",
                    form.text.format(space=f".{space}" if space else "", where=where),
                    (base + offset - displacement) & M64,
                    is_valid(form, low, limit),
                    expected(form, low) if is_valid(form, low, limit) else b"",
                )


def through_variable(form: Form, space: str, start: int) -> Iterator[Case]:
    """Yield cases with a variable of 64 bytes at offset `start` of its arena."""
    name = VARIABLES[space.split(":", maxsplit=1)[0]]
    for label, offset in offsets(form.size, VARIABLE_BYTES):
        where = f"[{name}+{offset}]"
        valid = is_valid(form, offset, VARIABLE_BYTES)
        yield Case(
            f"{form.name}.{space} {where} {label}",
            form.text.format(space=f".{space}", where=where),
            WINDOW,
            valid,
            expected(form, start + offset) if valid else b"",
        )


def groups(space: str) -> Iterator[Case]:
    """Yield cases with two accesses through one register, which one check covers."""
    shared = space.startswith("shared")
    base, limit = (0, SHARED_BYTES) if shared else (WINDOW, WINDOW_BYTES)
    dot, register = f".{space}" if space else "", "%s" if shared else "%a"
    near = ((0, 64), (64, 0), (-64, 64), (0, 4096 - 8))
    far = ((64, 8 - (1 << 63)), (8 - (1 << 63), 64), (0, 1 << 32), (8, (1 << 63) - 8))
    for first, second in near if shared else near + far:
        text = f"ld{dot}.u64 %l1, [{register}+{first}]; st{dot}.u64 [{register}+{second}], %l9;"
        for label, offset in offsets(8, limit):
            low = (offset + (1 << 31)) % (1 << 32) - (1 << 31) if shared else offset
            places = [low + first, low + second]
            valid = low % 8 == 0 and all(0 <= p <= limit - 8 for p in places)
            yield Case(
                f"group{dot} {first} {second} {label}",
                text,
                (base + offset) & M64,
                valid,
                pattern(low + first, 8) if valid else b"",
            )


def parameter_cases() -> Iterator[Case]:
    """Yield loads and stores of a parameter of 64 bytes within its bounds."""
    for form in FORMS:
        if form.name.startswith(("ld.b", "ld.v", "st.b", "st.v")):
            for offset in (0, PARAMETER_BYTES - form.size):
                text = form.text.format(space=".param", where=f"[q+{offset}]")
                result = STORED.to_bytes(8, "little") if form.result == "stored" else b""
                yield Case(f"{form.name}.param {offset}", text, 0, valid=True, result=result)


def refused_parameters() -> Iterator[tuple[str, str]]:
    """Yield accesses of a parameter that the translator must refuse: name and text."""
    for form in FORMS:
        plain = form.name.startswith(("ld.", "st."))
        for label, offset in offsets(form.size, PARAMETER_BYTES):
            if plain and 0 <= offset <= PARAMETER_BYTES - form.size:
                continue
            for space in (".param",) if plain else ("", ".param", ".global", ".shared"):
                where = f"[q+{offset}]"
                yield f"{form.name}{space} {label}", form.text.format(space=space, where=where)


def cases(lockstep: bool) -> list[Case]:
    """Return the cases of one mode: in lockstep fewer forms, and the instructions of warps."""
    forms = [f for f in FORMS if f.size == 8] + LOCKSTEP_FORMS if lockstep else FORMS
    found: list[Case] = []
    for form in forms:
        for space in SPACES:
            if form.spaces and space not in form.spaces:
                continue
            found += through_register(form, space)
            plain = space.split(":", maxsplit=1)[0]
            if plain in VARIABLES and form.name not in ELEMENT_BYTES:
                start = {"shared": 0, "const": 0, "global": VARIABLE_BYTES, "local": LOCAL}[plain]
                found += through_variable(form, space, start)
    for space in ATOMIC:
        found += groups(space)
    return found + list(parameter_cases())


DECLARATIONS = """.version 8.8
.target sm_120a
.address_size 64
.const .align 64 .b8 c[64];
.global .align 64 .b8 g[64];
"""
REGISTERS = """.reg .b16 %h<3>; .reg .b32 %r<12>, %s, %case; .reg .b64 %l<12>, %a, %out, %window;
.reg .f32 %f<10>; .reg .pred %p<3>; .local .align 64 .b8 v[64];
"""
VALUES = f"mov.u64 %window, {WINDOW}; mov.u64 %l9, {STORED}; mov.u32 %r9, 5; mov.u32 %r8, 3;\n"


def branches(texts: list[str]) -> str:
    """Return a switch over the distinct texts; each stores %l1 to the output."""
    targets = ", ".join(f"$C{i}" for i in range(len(texts)))
    blocks = "".join(
        f"$C{i}: {text} st.global.u64 [%out], %l1; bra $END;\n" for i, text in enumerate(texts)
    )
    return f"mov.u64 %l1, 0;\n$T: .branchtargets {targets};\nbrx.idx %case, $T;\n{blocks}$END:\n"


PARAMETERS = (
    f".param .b64 a, .param .b64 out, .param .b64 case, .param .align 16 .b8 q[{PARAMETER_BYTES}]"
)
LOAD_PARAMETERS = (
    "ld.param.b64 %a, [a]; cvt.u32.u64 %s, %a; ld.param.b64 %out, [out];\n"
    "ld.param.b32 %case, [case];\n"
)


def body(texts: list[str], before: str = "") -> str:
    shared = ".shared .align 64 .b8 s[64];\n"
    return f"{REGISTERS}{shared}{LOAD_PARAMETERS}{VALUES}{before}{branches(texts)}ret; }}\n"


def kernel(name: str, texts: list[str], before: str = "") -> str:
    return f".visible .entry {name}({PARAMETERS}) {{\n{body(texts, before)}"


def called(name: str, texts: list[str]) -> str:
    """Return a kernel that calls a function with all texts."""
    passed = "".join(
        f".param .b64 {p}; ld.param.b64 %l, [{p[1:]}]; st.param.b64 [{p}], %l;\n"
        for p in ("xa", "xout", "xcase")
    )
    return (
        f".func f_{name}({PARAMETERS}) {{\n{body(texts)}"
        f".visible .entry {name}({PARAMETERS}) {{\n.reg .b64 %l;\n{passed}"
        f".param .align 16 .b8 w[{PARAMETER_BYTES}];\n"
        f"call f_{name}, (xa, xout, xcase, w);\nret; }}\n"
    )


def program(mode: str, texts: list[str]) -> str:
    """Return a module with kernels k0, k1, … of BATCH texts each."""
    text = DECLARATIONS
    for i in range(0, len(texts), BATCH):
        name, some = f"k{i // BATCH}", texts[i : i + BATCH]
        before = "bar.sync 0;" if mode == "lockstep" else ""
        text += called(name, some) if mode == "called" else kernel(name, some, before)
    return text
