"""Syntactic forms of PTX: operands, addresses, constants, declarations, directives and scopes.

Each form is a line of a module. Most of them are wrong on purpose. `grammar_lines.txt` has lines
with alternatives: `<a|b|c>` stands for each of a, b and c, `«` and `»` for < and >, `¦` for a bar.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.softgpu.modifier_forms import opcode
from tests.softgpu.ptx_instructions import REGISTERS, SUPPORTED

LINES = Path(__file__).with_name("grammar_lines.txt")
OPERANDS = """
%h4 %r4 %l4 %f4 %d4 %p4 %q1 %u1 %s1 %x1 %n1 %e1 7 -7 0x7fU 0b11 017 (3+4)*2 1.5 0f3F800000
0d3FF0000000000000 0x1FFFFFFFF 18446744073709551616 %tid.x %clock64 %laneid WARP_SZ s s+4 s[4] g
g+8 p k [s] [g] [%ls] [%lg] [%lg+4] [%lg+-4] [%lg-4] [%r4] [16] {%r4} {%r4,%r5}
{%f4,%f5,%f6,%f7} _ %r4|%p3 %p3|%p4 !%p3 -%r4 !%r4 -%f4 %undefined nowhere
"""
DECLARED = """
.global .align 16 .b8 g[64]; .const .b32 c[4] = {1, 2, 3, 4}; .extern .shared .b8 e[];
.func (.param .b32 o) f(.param .b32 i) { .reg .b32 %t; ld.param.b32 %t, [i];
st.param.b32 [o], %t; ret; }
"""
MORE_REGISTERS = (
    ".reg .u32 %u<3>; .reg .s32 %s<3>; .reg .u64 %x<3>; .reg .f16 %n<3>; .reg .u16 %e<3>;"
)
LINE = 6  # of the form in its module
OPERAND_FORMS, OBJECT_FORMS = 9500, 2000
# Groups of samples of textures, surfaces, matrices of small floats and bulk copies: OBJECT_FORMS of
# their forms are judged, so that new samples do not change the choice of the other forms.
OBJECTS = (
    "tex of",
    "tex and",
    "txq",
    "sust.p",
    "suld.b",
    "mma.sync with",
    "cp.async.bulk",
    "tensormap",
)
FORMS_OF_A_LINE = 160


@dataclass(frozen=True)
class Form:
    """A line of a kernel's body, or of a module."""

    text: str
    in_module: bool = False

    def module(self) -> str:
        head = f".version 9.2\n.target sm_120a\n.address_size 64\n{one_line(DECLARED)}\n"
        kernel = f".visible .entry k(.param .u64 p) {{ {one_line(REGISTERS)} {MORE_REGISTERS}"
        if self.in_module:
            return f"{head}{kernel} ret; }}\n{self.text}\n"
        return f"{head}{kernel}\n{self.text}\nret; }}\n"


def one_line(text: str) -> str:
    return " ".join(text.split())


def split_operands(text: str) -> list[str]:
    """Return the operands of an instruction; commas in brackets do not separate."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def operand_forms(of_objects: bool) -> Iterator[str]:
    """Yield each sample of some groups with each operand replaced, left out and repeated."""
    groups = (s for name, s in SUPPORTED.items() if name.startswith(OBJECTS) == of_objects)
    for sample in itertools.chain.from_iterable(groups):
        if sample.count(";") != 1:
            continue
        head = sample[: sample.index(opcode(sample)) + len(opcode(sample))]
        operands = split_operands(sample[len(head) :].rstrip(";"))
        yield sample
        for i, own in enumerate(operands):
            rest = operands[:i], operands[i + 1 :]
            for other in (o for o in OPERANDS.split() if o != own):
                yield f"{head} {', '.join([*rest[0], other, *rest[1]])};"
            yield f"{head} {', '.join(rest[0] + rest[1])};"
        yield f"{head} {', '.join([*operands, operands[-1]] if operands else ['%r1'])};"


def expanded(line: str) -> Iterator[str]:
    """Yield each choice of the alternatives of a line."""
    if "<" not in line:
        yield line.replace("«", "<").replace("»", ">").replace("¦", "|")
        return
    before, _, rest = line.partition("<")
    choices, _, after = rest.partition(">")
    for choice in choices.split("|"):
        yield from expanded(before + choice + after)


def some(texts: list[str], count: int, seed: str) -> list[str]:
    """Return at most `count` of the texts, the same ones each time."""
    return texts if len(texts) <= count else random.Random(seed).sample(texts, count)


def forms() -> list[Form]:
    """Return all forms, each once."""
    operands = some(sorted(set(operand_forms(of_objects=False))), OPERAND_FORMS, "operands")
    operands += some(sorted(set(operand_forms(of_objects=True))), OBJECT_FORMS, "objects")
    found = dict.fromkeys(Form(text) for text in operands)
    body, module = LINES.read_text().removeprefix("[body]\n").split("[module]\n")
    for lines, in_module in ((body, False), (module, True)):
        for line in lines.splitlines():
            texts = some(list(expanded(line)), FORMS_OF_A_LINE, line)
            found |= dict.fromkeys(Form(text, in_module) for text in texts)
    return list(found)
