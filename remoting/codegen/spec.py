"""Parser of the specification. Errors name file and line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from remoting.codegen.roles import RoleError, parse

CLASSES = {"local", "send", "counter", "reply", "pull"}
FLAGS = {
    "unsafe",
    "drain",
    "anywhere",
    "helper",
    "gpu",
    "waits",
    "changes_exec",
    "result_on_error",
}


class SpecError(Exception):
    """The specification is invalid, incomplete, or contradicts the header."""


@dataclass(frozen=True)
class Call:
    """One line of the specification. `number` is the opcode, None without a record of its own."""

    name: str
    number: int | None
    kind: str
    body: str
    roles: dict[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()

    @property
    def alias(self) -> str | None:
        return self.body.removeprefix("alias:") if self.body.startswith("alias:") else None


def parse_line(text: str, where: str) -> Call:
    """Return the call of a line. Raises SpecError, which starts with `where`."""
    fields = text.split()
    if len(fields) < 4:
        raise SpecError(f"{where}: expected number, name, class and body")
    number, name, kind, body = fields[:4]
    if kind not in CLASSES:
        raise SpecError(f"{where}: unknown class {kind}")
    if body not in {"generated", "wrapped", "hand"} and not body.startswith("alias:"):
        raise SpecError(f"{where}: unknown body {body}")
    if (number == "-") == (body in {"generated", "wrapped"}):
        raise SpecError(f"{where}: only a generated function has a number")
    roles, flags = {}, set()
    for word in fields[4:]:
        argument, equals, role = word.partition("=")
        if not equals and word.removeprefix("+") in FLAGS:
            flags.add(word.removeprefix("+"))
            continue
        try:
            parse(role)
        except RoleError as e:
            raise SpecError(f"{where}: unknown role {word}") from e
        roles[argument] = role
    return Call(
        name, None if number == "-" else int(number, 16), kind, body, roles, frozenset(flags)
    )


def read(path: Path) -> dict[str, Call]:
    """Return the calls by name. Raises SpecError."""
    calls: dict[str, Call] = {}
    numbers: dict[int, str] = {}
    for line_number, line in enumerate(path.read_text().splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        call = parse_line(text, f"{path.name}:{line_number}")
        if call.name in calls:
            raise SpecError(f"{path.name}:{line_number}: duplicate function {call.name}")
        if call.number is not None:
            if not 0 < call.number < 0x1000 or call.number in numbers:
                raise SpecError(
                    f"{path.name}:{line_number}: number {call.number:#x} is taken or out of range"
                )
            numbers[call.number] = call.name
        calls[call.name] = call
    return calls


def read_refused(path: Path) -> dict[str, str]:
    """Return the reasons of unsupported functions by name. Raises SpecError."""
    refused = {}
    for line_number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = line.strip().partition(" ")
        if not reason:
            raise SpecError(f"{path.name}:{line_number}: {name} has no reason")
        refused[name] = reason
    return refused


def check_complete(calls: dict[str, Call], refused: dict[str, str], exported: set[str]) -> None:
    """Raise SpecError unless each exported function is either implemented or refused."""
    named = set(calls) | set(refused)
    for problem, names in (
        ("is both implemented and refused", set(calls) & set(refused)),
        ("has no entry in the specification", exported - named),
        ("is not in the header", named - exported),
    ):
        if names:
            raise SpecError(f"{sorted(names)[0]} {problem} ({len(names)} in all)")
