"""Generator of random PTX programs and a reference interpreter for them.

The interpreter runs each lane separately with Python integers. It shares no code and no design with
the translator. All lanes of a generated program reach each operation across lanes, because these
are between the blocks and never inside them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
LANES = 32
Lane = dict[str, int]


def signed(v: int, bits: int = 32) -> int:
    return v - (1 << bits) if v >> (bits - 1) else v


def f32(bits: int) -> np.float32:
    return np.uint32(bits).view(np.float32)


def bits_of(value: float | np.float32) -> int:
    with np.errstate(over="ignore"):
        r = np.float32(value)
    return 0x7FFFFFFF if np.isnan(r) else int(r.view(np.uint32))


def rounded_once(f: Callable[[float, float], float]) -> Callable[[int, int, int], int]:
    """Compute in double precision and round once; exact for sums and products of two floats."""

    def apply(a: int, b: int, _: int) -> int:
        with np.errstate(all="ignore"):
            return bits_of(np.float32(f(np.float64(f32(a)), np.float64(f32(b)))))

    return apply


def lop3(table: int) -> Callable[[int, int, int], int]:
    return lambda a, b, c: sum(
        (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1) << i
        for i in range(32)
    )


def shift(a: int, b: int, left: bool, arithmetic: bool = False) -> int:
    n = min(b, 32)
    if left:
        return a << n & M32
    return (signed(a) >> n) & M32 if arithmetic else a >> n


def bit_field(a: int, b: int, c: int) -> int:
    position, length = b & 255, c & 255
    return a >> position & ((1 << min(length, 32)) - 1) if position < 32 else 0


def permute(a: int, b: int, c: int) -> int:
    source = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
    out = 0
    for i in range(4):
        s = c >> 4 * i & 15
        byte = source[s & 7]
        out |= ((255 if byte >> 7 else 0) if s & 8 else byte) << 8 * i
    return out


THREE: dict[str, Callable[[int, int, int], int]] = {
    "add.u32": lambda a, b, c: a + b,
    "sub.u32": lambda a, b, c: a - b,
    "mul.lo.s32": lambda a, b, c: a * b,
    "mul.hi.u32": lambda a, b, c: a * b >> 32,
    "mul.hi.s32": lambda a, b, c: signed(a) * signed(b) >> 32,
    "and.b32": lambda a, b, c: a & b,
    "or.b32": lambda a, b, c: a | b,
    "xor.b32": lambda a, b, c: a ^ b,
    "shl.b32": lambda a, b, c: shift(a, b, True),
    "shr.u32": lambda a, b, c: shift(a, b, False),
    "shr.s32": lambda a, b, c: shift(a, b, False, True),
    "min.s32": lambda a, b, c: min(signed(a), signed(b)),
    "max.u32": lambda a, b, c: max(a, b),
    "add.f32": rounded_once(lambda a, b: a + b),
    "sub.f32": rounded_once(lambda a, b: a - b),
    "mul.f32": rounded_once(lambda a, b: a * b),
}
FOUR: dict[str, Callable[[int, int, int], int]] = {
    "mad.lo.s32": lambda a, b, c: a * b + c,
    "bfe.u32": bit_field,
    "prmt.b32": permute,
    "shf.l.wrap.b32": lambda a, b, c: ((b << 32 | a) << (c & 31)) >> 32,
    "sad.u32": lambda a, b, c: c + abs(a - b),
}
TWO: dict[str, Callable[[int, int, int], int]] = {
    "not.b32": lambda a, b, c: ~a,
    "neg.s32": lambda a, b, c: -a,
    "abs.s32": lambda a, b, c: abs(signed(a)),
    "popc.b32": lambda a, b, c: a.bit_count(),
    "clz.b32": lambda a, b, c: 32 - a.bit_length(),
    "brev.b32": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
    "mov.u32": lambda a, b, c: a,
    "cvt.s32.s16": lambda a, b, c: signed(a & 0xFFFF, 16),
    "cvt.u32.u8": lambda a, b, c: a & 255,
}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "lt.s32": lambda a, b: signed(a) < signed(b),
    "ge.s32": lambda a, b: signed(a) >= signed(b),
    "ge.u32": lambda a, b: a >= b,
    "eq.u32": lambda a, b: a == b,
    "ne.s32": lambda a, b: a != b,
    "hi.u32": lambda a, b: a > b,
}
REGISTERS = [f"%r{i}" for i in range(8)]


class ProgramGenerator:
    """Generates one program: blocks with forward branches and counted loops.

    With `lockstep`, operations across lanes are between the blocks.
    """

    def __init__(self, seed: int, lockstep: bool) -> None:
        self.random, self.lockstep, self.labels = random.Random(seed), lockstep, 0
        self.lines: list[str] = []

    def register(self) -> str:
        return self.random.choice(REGISTERS)

    def operand(self) -> str:
        if self.random.random() < 0.8:
            return self.register()
        return str(
            self.random.choice([0, 1, 31, 32, 0xFFFFFFFF, 0x80000000, self.random.getrandbits(32)])
        )

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"

    def instruction(self) -> None:
        kind = self.random.random()
        register = self.register
        guard = self.random.choice(["@%p0 ", "@!%p1 "]) if self.random.random() < 0.2 else ""
        if kind < 0.5:
            op = self.random.choice(list(THREE))
            if op.endswith("f32"):  # exclude exponents that lead to a NaN with unspecified bits
                self.lines += [f"and.b32 %t{i}, {register()}, {0xBFFFFFFF};" for i in (1, 2)]
                text = f"{op} {register()}, %t1, %t2"
            else:
                text = f"{op} {register()}, {register()}, {self.operand()}"
        elif kind < 0.65:
            op = self.random.choice(list(FOUR))
            text = f"{op} {register()}, {register()}, {register()}, {register()}"
        elif kind < 0.8:
            text = f"{self.random.choice(list(TWO))} {register()}, {register()}"
        elif kind < 0.85:
            operands = f"{register()}, {register()}, {register()}, {register()}"
            text = f"lop3.b32 {operands}, {self.random.randrange(256)}"
        elif kind < 0.92:
            op = f"setp.{self.random.choice(list(COMPARE))}"
            text = f"{op} %p{self.random.randrange(2)}, {register()}, {self.operand()}"
        else:
            operands = f"{register()}, {register()}, {register()}"
            text = f"selp.b32 {operands}, %p{self.random.randrange(2)}"
        self.lines.append(f"{guard}{text};")

    def block(self, depth: int) -> None:
        for _ in range(self.random.randrange(2, 7)):
            kind = self.random.random()
            if depth and kind < 0.2:
                self.branch(depth)
            elif depth and kind < 0.3:
                self.loop(depth)
            else:
                self.instruction()

    def branch(self, depth: int) -> None:
        """Emit an if, sometimes with an else."""
        other, end = self.label(), self.label()
        comparison = f"setp.{self.random.choice(list(COMPARE))}"
        self.lines.append(f"{comparison} %p2, {self.register()}, {self.operand()};")
        self.lines.append(f"@{self.random.choice(['', '!'])}%p2 bra {other};")
        self.block(depth - 1)
        self.lines.append(f"bra {end};")
        self.lines.append(f"{other}:")
        if self.random.random() < 0.6:
            self.block(depth - 1)
        self.lines.append(f"{end}:")

    def loop(self, depth: int) -> None:
        """Emit a loop with a different number of iterations for each lane."""
        counter, top = f"%n{depth}", self.label()
        self.lines.append(f"and.b32 {counter}, {self.register()}, 3;")
        self.lines.append(f"{top}:")
        self.block(depth - 1)
        self.lines += [
            f"sub.u32 {counter}, {counter}, 1;",
            f"setp.ge.s32 %p3, {counter}, 0;",
            f"@%p3 bra {top};",
        ]

    def exchange(self) -> None:
        """Emit an operation across lanes."""
        kind = self.random.randrange(4)
        a, d = self.register(), self.register()
        if kind == 0:
            mode = self.random.choice(["bfly", "idx", "up", "down"])
            clamp = 0 if mode == "up" else 31
            lane = self.random.randrange(32)
            self.lines.append(f"shfl.sync.{mode}.b32 {d}, {a}, {lane}, {clamp}, -1;")
        elif kind == 1:
            self.lines += [f"setp.lt.s32 %p2, {a}, 0;", f"vote.sync.ballot.b32 {d}, %p2, -1;"]
        elif kind == 2:
            self.lines.append(f"redux.sync.add.u32 {d}, {a}, -1;")
        else:
            self.lines.append(f"match.any.sync.b32 {d}, {a}, -1;")

    def program(self) -> str:
        """Return the PTX of a kernel that loads, changes and stores the registers of 32 lanes."""
        for _ in range(3):
            self.block(2)
            if self.lockstep:
                self.exchange()
        load = "\n".join(
            f"ld.global.u32 {r}, [%rd1+{4 * LANES * i}];" for i, r in enumerate(REGISTERS)
        )
        store = "\n".join(
            f"st.global.u32 [%rd1+{4 * LANES * i}], {r};" for i, r in enumerate(REGISTERS)
        )
        body = "\n".join(self.lines)
        return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {{
.reg .b32 %r<8>, %n<3>, %t<3>; .reg .b64 %rd<3>; .reg .pred %p<4>;
ld.param.u64 %rd1, [p]; mov.u32 %t0, %tid.x; mul.wide.u32 %rd2, %t0, 4; add.u64 %rd1, %rd1, %rd2;
setp.eq.u32 %p0, %t0, 3; setp.ne.u32 %p1, %t0, 5;
setp.eq.u32 %p2, %t0, %t0; setp.eq.u32 %p3, %t0, %t0;
{load}
// begin
{body}
// end
{store}
ret;
}}
"""


WORDS = re.compile(r"[\w.%$+!@-]+")


def run(
    program: str, registers: np.ndarray[tuple[int, int], np.dtype[np.uint32]]
) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    """Interpret a program. Return the registers (8 registers x 32 lanes) after it."""
    lines = program.split("// begin\n")[1].split("// end", maxsplit=1)[0].split("\n")
    labels = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    lanes: list[Lane] = [
        {r: int(registers[i, n]) for i, r in enumerate(REGISTERS)}
        | {"%p0": int(n == 3), "%p1": int(n != 5), "%p2": 1, "%p3": 1}
        for n in range(LANES)
    ]
    at = [0] * LANES
    while any(a < len(lines) for a in at):
        at = [advance(lane, lines, labels, a) for lane, a in zip(lanes, at, strict=True)]
        if at[0] < len(lines):
            assert len(set(at)) == 1, "all lanes must reach an operation across lanes"
            exchange(lanes, lines[at[0]])
            at = [a + 1 for a in at]
    return np.array([[lane[r] for lane in lanes] for r in REGISTERS], np.uint32)


def value(lane: Lane, word: str) -> int:
    return lane[word] if word.startswith("%") else int(word) & M32


def advance(lane: Lane, lines: list[str], labels: dict[str, int], at: int) -> int:
    """Run one lane up to the next operation across lanes, or to the end. Return its position."""
    while at < len(lines):
        words = WORDS.findall(lines[at])
        if not words or lines[at].endswith(":"):
            at += 1
            continue
        active = True
        if words[0].startswith("@"):
            guard = words.pop(0)
            active = bool(lane[guard.lstrip("@!")]) != ("!" in guard)
        op, *rest = words
        if ".sync" in op:
            return at
        if op == "bra" and active:
            at = labels[rest[0]]
            continue
        if active and op != "bra":
            step(lane, op, rest)
        at += 1
    return at


def step(lane: Lane, op: str, rest: list[str]) -> None:
    d, *names = rest
    if op.startswith("setp."):
        lane[d] = int(COMPARE[op[5:]](value(lane, names[0]), value(lane, names[1])))
    elif op == "selp.b32":
        lane[d] = value(lane, names[0] if lane[names[2]] else names[1])
    elif op == "lop3.b32":
        lane[d] = lop3(int(names[3]))(*(value(lane, n) for n in names[:3]))
    else:
        f = THREE.get(op) or FOUR.get(op) or TWO[op]
        a, b, c = (value(lane, names[i]) if i < len(names) else 0 for i in range(3))
        lane[d] = f(a, b, c) & M32


def exchange(lanes: list[Lane], line: str) -> None:
    op, d, a, *rest = WORDS.findall(line)
    values = [lane[a] for lane in lanes]
    if op.startswith("shfl"):
        n = int(rest[0])
        sources: dict[str, Callable[[int], int]] = {
            "bfly": lambda i: i ^ n,
            "idx": lambda i: n,
            "up": lambda i: i - n,
            "down": lambda i: i + n,
        }
        source = sources[op.split(".")[2]]
        new = [values[source(i)] if 0 <= source(i) < LANES else values[i] for i in range(LANES)]
    elif op.startswith("vote"):
        new = [sum(v << i for i, v in enumerate(values))] * LANES
    elif op.startswith("redux"):
        new = [sum(values) & M32] * LANES
    else:
        new = [sum((w == v) << i for i, w in enumerate(values)) for v in values]
    for lane, v in zip(lanes, new, strict=True):
        lane[d] = v
