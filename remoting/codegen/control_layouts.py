"""Python classes for the structures of remoting/control/messages.h and remoting/launcher/ticket.h.

Also Python constants for texts of remoting/control/session_ends.h.

`python -m remoting.codegen.control_layouts` writes the generated files, which are committed:
agent and appliance must not import `remoting`. `--check` fails if they are stale.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
REMOTING = ROOT / "remoting"
FORMATS = {"uint32_t": "I", "uint64_t": "Q", "int64_t": "q"}
BYTE_TYPES = {"uint8_t", "char"}
COMMENT = re.compile(r"//[^\n]*")
CONSTANT = re.compile(r"constexpr (?:uint32_t|size_t) k(\w+) = ([^;,]+);")
TEXT = re.compile(r'constexpr char k(\w+)\[\] = ("[^"]*");')
BLOCK = re.compile(r"(struct|enum class|enum) (\w+)(?: : uint32_t)? \{(.*?)\n?\};?", re.DOTALL)
FIELD = re.compile(r"(\w+)(?:\[([\w:]+)\])?$")


@dataclass(frozen=True)
class Field:
    """A member: `type` in C++, `count` elements (0: no array)."""

    name: str
    type: str
    count: int


@dataclass(frozen=True)
class Header:
    structs: dict[str, list[Field]]
    enums: dict[str, list[tuple[str, int]]]
    constants: dict[str, int]
    texts: dict[str, str] = field(default_factory=dict)
    """Literals, which are the same in Python."""


@dataclass(frozen=True)
class Output:
    """A generated module: the structures, enumerations and constants that its users need."""

    path: str
    description: str
    structs: tuple[str, ...] = ()
    enums: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


OUTPUTS = (
    Output(
        "nodes/launcher_layouts.py",
        "Layouts of the messages between agent and launcher (remoting/control/messages.h).",
        (
            "Header",
            "Partition",
            "Allocation",
            "TicketKey",
            "Grants",
            "KillSession",
            "SessionRecord",
            "SessionList",
            "Holding",
            "OverList",
            "ShareRecord",
            "ShareList",
            "SuspendSession",
            "SuspensionRecord",
            "SuspensionList",
        ),
        ("Kind", "SessionState", "Isolation", "ComputeMode", "Enforcement", "Suspension"),
        ("MaxKeys", "MaxMessageBytes", "MaxDevices", "UnknownShare"),
    ),
    Output(
        "appliance/allocations/ticket_layouts.py",
        "Layout of tickets (remoting/launcher/ticket.h).",
        ("TicketBody", "Partition"),
    ),
    Output(
        "nodes/protocol/session_ends.py",
        "Reasons of the ends of sessions about which the appliance knows more than the node.",
        texts=("Released", "TooLate"),
    ),
)


def evaluate(text: str, constants: dict[str, int]) -> int:
    """Return the value of a number, a constant, or a difference or shift of two numbers."""
    left, _, right = text.partition(" - ")
    if right:
        return evaluate(left, constants) - evaluate(right, constants)
    left, _, right = text.partition("<<")
    if right:
        return evaluate(left, constants) << evaluate(right, constants)
    name = text.strip().removeprefix("wire::").removeprefix("k")
    if name in constants:
        return constants[name]
    return int(text.strip().rstrip("ul"), 0)


def parse_struct(body: str, constants: dict[str, int]) -> list[Field]:
    fields = []
    statements = [s for s in map(str.strip, body.split(";")) if s and "(" not in s]  # no functions
    for statement in statements:
        type_name, _, names = statement.partition(" ")
        for declarator in names.split(","):
            match = FIELD.match(declarator.strip())
            if not match:
                raise ValueError(f"cannot parse the member {declarator.strip()!r}")
            count = evaluate(match[2], constants) if match[2] else 0
            fields.append(Field(match[1], type_name, count))
    return fields


def parse_enum(body: str) -> list[tuple[str, int]]:
    pairs = (item.split("=") for item in body.split(",") if "=" in item)
    return [(name.strip(), int(value)) for name, value in pairs]


def parse(paths: list[Path]) -> Header:
    """Return the structures, enumerations and integer constants of headers."""
    header = Header({}, {}, {})
    for path in paths:
        text = COMMENT.sub("", path.read_text())
        for name, value in CONSTANT.findall(text):
            header.constants[name] = evaluate(value, header.constants)
        header.texts.update(TEXT.findall(text))
        for kind, name, body in BLOCK.findall(text):
            if kind == "struct" and path.name != "format.h":
                header.structs[name] = parse_struct(body, header.constants)
            elif kind != "struct":
                header.enums[name] = parse_enum(body)
    return header


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def is_bytes(field: Field) -> bool:
    return field.type in BYTE_TYPES and field.count > 0


def struct_format(field: Field, header: Header) -> str:
    if is_bytes(field):
        return f"{field.count}s"
    inner = field.type.rpartition("::")[2]
    if inner in header.structs:
        size = "".join(struct_format(f, header) for f in header.structs[inner])
        return size * max(field.count, 1)
    return f"{field.count or ''}{FORMATS[field.type]}"


def annotation(field: Field, header: Header) -> str:
    inner = field.type.rpartition("::")[2]
    element = (
        "bytes" if is_bytes(field) else f'"{inner}"' if inner in header.structs else "int"
    ).strip('"')
    return element if is_bytes(field) or not field.count else f"tuple[{element}, ...]"


def pack_expression(field: Field, header: Header) -> str:
    value = f"self.{field.name}"
    inner = field.type.rpartition("::")[2]
    if inner in header.structs:
        if not field.count:
            return f"{value}.pack()"
        return f'b"".join(e.pack() for e in {value}).ljust({field.count} * {inner}.SIZE, b"\\0")'
    if field.count and not is_bytes(field):
        return f"*{value}"
    return value


def flat_format(fields: list[Field], header: Header) -> str:
    """Return the struct format of a class; nested structures are byte strings."""
    parts = []
    for f in fields:
        inner = f.type.rpartition("::")[2]
        if inner in header.structs:
            parts.append(f"{{{inner}.SIZE * {max(f.count, 1)}}}s")
        else:
            parts.append(struct_format(f, header))
    return "<" + "".join(parts)


def unpack_lines(name: str, fields: list[Field], header: Header) -> list[str]:
    """Return the unpack method; structures with nested arrays are only packed."""
    if any(f.type.rpartition("::")[2] in header.structs for f in fields):
        return []
    lines = [
        "",
        "    @classmethod",
        f"    def unpack(cls, raw: bytes) -> {name}:",
        f"        values = _{snake(name)}.unpack(raw)",
    ]
    arrays = [f for f in fields if f.count and not is_bytes(f)]
    if not arrays:
        return [*lines, "        return cls(*values)"]
    if arrays != [fields[-1]]:
        raise ValueError(f"{name}: only the last member may be an array of integers")
    plain = len(fields) - 1
    return [*lines, f"        return cls(*(*values[:{plain}], values[{plain}:]))"]


def class_lines(name: str, header: Header) -> list[str]:
    fields = header.structs[name]
    nested = any(f.type.rpartition("::")[2] in header.structs for f in fields)
    prefix = "f" if nested else ""
    lines = [f'_{snake(name)} = Struct({prefix}"{flat_format(fields, header)}")', "", ""]
    lines += ["@dataclass(frozen=True, slots=True)", f"class {name}:"]
    for f in fields:
        default = " = 0" if f is fields[-1] and f.name == "reserved" else ""
        lines.append(f"    {f.name}: {annotation(f, header)}{default}")
    lines += ["", f"    SIZE: ClassVar[int] = _{snake(name)}.size", ""]
    lines += ["    def pack(self) -> bytes:", f"        return _{snake(name)}.pack("]
    lines += [f"            {pack_expression(f, header)}," for f in fields]
    lines.append("        )")
    lines += unpack_lines(name, fields, header)
    return [*lines, "", ""]


def enum_lines(name: str, header: Header) -> list[str]:
    members = header.enums[name]
    kind = "IntFlag" if name == "Isolation" else "IntEnum"
    lines = [f"class {name}({kind}):"]
    for member, value in members:
        lines.append(f"    {snake(re.sub('^k(?=[A-Z])', '', member))} = {value}")
    return [*lines, "", ""]


def module(output: Output, header: Header) -> str:
    """Return the text of a generated module, before formatting."""
    used = sorted({"IntFlag" if e == "Isolation" else "IntEnum" for e in output.enums})
    lines = [
        f'"""{output.description}',
        "",
        "Generated by remoting.codegen.control_layouts; do not edit.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        *(["from dataclasses import dataclass"] if output.structs else []),
        *([f"from enum import {', '.join(used)}"] if used else []),
        *(
            ["from struct import Struct", "from typing import ClassVar", ""]
            if output.structs
            else []
        ),
        *(f"{snake(name)} = {header.texts[name]}" for name in output.texts),
    ]
    if output.constants:
        lines += [f"{snake(c)} = {header.constants[c]}" for c in output.constants] + ["", ""]
    for enum in output.enums:
        lines += enum_lines(enum, header)
    for struct in output.structs:
        lines += class_lines(struct, header)
    return "\n".join(lines).rstrip() + "\n"


def generate() -> dict[Path, str]:
    """Return the text of each generated file."""
    header = parse(
        [
            REMOTING / "wire" / "format.h",
            REMOTING / "control" / "messages.h",
            REMOTING / "control" / "session_ends.h",
            REMOTING / "launcher" / "ticket.h",
        ]
    )
    return {ROOT / output.path: module(output, header) for output in OUTPUTS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if stale")
    arguments = parser.parse_args()
    stale = [p for p, text in generate().items() if not p.exists() or p.read_text() != text]
    if not arguments.check:
        for path, text in generate().items():
            path.write_text(text)
        return 0
    for path in stale:
        name = path.relative_to(ROOT)
        print(f"{name} is stale; run: python -m remoting.codegen.control_layouts", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
