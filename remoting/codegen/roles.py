"""What an argument of a CUDA function is: the words of the specification, one class."""

from __future__ import annotations

import re
from dataclasses import dataclass

from remoting.codegen.headers import Parameter, Prototype

OBJECTS = ("array", "mipmap", "texture", "surface", "graph", "node", "exec", "condition", "memory")
"""Things that the driver names by a value of its own. Both ends know which values are valid."""

HANDLES = {
    "array": "CUarray", "mipmap": "CUmipmappedArray", "texture": "CUtexObject", "surface": "CUsurfObject", "graph": "CUgraph",
    "condition": "CUgraphConditionalHandle", "node": "CUgraphNode", "exec": "CUgraphExec", "memory": "CUmemGenericAllocationHandle",
}  # fmt: skip

PLAIN = {
    "stream",
    "event",
    "function",
    "module",
    "context",
    "device",
    "pointer",
    "either",
    "legacy",
    "in",
    "out",
    "count",
    "zero",
}
ROLE = re.compile(
    r"(?:(?P<verb>new|free|list):)?(?P<word>[a-z]*)(?P<optional>\?)?(?:\[(?P<count>\w+)\])?$"
)


NAMES_SOMETHING = re.compile(
    r"CU(context|stream|event|function|module|kernel|library|graph|graphNode|graphExec|array|mipmappedArray|texObject|surfObject|device)$"
)


class RoleError(Exception):
    """A word that says nothing to us."""


@dataclass(frozen=True)
class Role:
    """`word` is one of PLAIN, OBJECTS or "value"; `verb` new, free or list; `count` the argument that holds the number of elements."""

    word: str
    verb: str = ""
    optional: bool = False
    count: str = ""

    @property
    def is_object(self) -> bool:
        return self.word in OBJECTS

    @property
    def is_list(self) -> bool:
        return self.verb == "list"


def parse(text: str) -> Role:
    match = ROLE.match(text)
    if not match:
        raise RoleError(text)
    role = Role(match["word"], match["verb"] or "", bool(match["optional"]), match["count"] or "")
    known = role.word in PLAIN or role.is_object or (role.is_list and not role.word)
    wants_object = role.verb in {"new", "free"}
    if not known or (wants_object and not role.is_object) or (role.is_list and not role.count):
        raise RoleError(text)
    return role


def pointee(parameter: Parameter) -> str:
    """`const T *` is a pointer to T."""
    return re.sub(r"^const\s+", "", parameter.type.rsplit("*", 1)[0].strip())


def of_call(name: str, given: dict[str, str], prototype: Prototype) -> list[Role]:
    """One role for each parameter, in order. An argument that needs a role and has none is an error."""
    unknown = set(given) - {p.name for p in prototype.parameters}
    roles = []
    for p in prototype.parameters:
        if p.name in given:
            roles.append(parse(given[p.name]))
        elif "*" in p.type or NAMES_SOMETHING.match(p.type):
            raise RoleError(f"{name}: argument {p.name} of type {p.type} needs a role")
        else:
            roles.append(Role("value"))
    if unknown:
        raise RoleError(f"{name}: there is no argument {sorted(unknown)[0]}")
    return roles


def wire_order(roles: list[Role]) -> list[int]:
    """Arrays come last in a record, so that their counts are known when they are read."""
    return sorted(range(len(roles)), key=lambda i: bool(roles[i].count and not roles[i].is_list))


def owner(made: Role, roles: list[Role], objects: str) -> str:
    """In C++, what a new object goes with: a node with its graph, a graph inside a node with that node's graph, a level with its mipmap."""
    given = [(i, r) for i, r in enumerate(roles) if not r.verb and not r.count]
    whole = {"node": ("graph",), "condition": ("graph",), "array": ("mipmap", "array")}.get(
        made.word, ()
    )
    for i, r in given:
        if r.word in whole:
            return f"(uint64_t)a{i}"
    for i, r in given:
        if r.word == "node" and made.word in {"node", "graph"}:
            return f"{objects}.owner(ObjectKind::node, (uint64_t)a{i})"
    return "0"
