"""Roles of the arguments of CUDA functions, as written in the specification.

Words: a handle (stream, event, function, module, context, device), `pointer` (device memory),
`either` (a pointer that can be on another node), `in` and `out` (structures or values behind a
pointer), `count` (in and out), `zero` and `legacy` (additional arguments of an alias), or a kind of
object. Prefixes: `new:` creates an object, `free:` destroys it, `list:` is an output array.
Suffixes: `?` for optional, `[name]` for an array whose length is the argument `name`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from remoting.codegen.headers import Parameter, Prototype

OBJECTS = ("array", "mipmap", "texture", "surface", "graph", "node", "exec", "condition", "memory")
"""Objects named by a value of the driver. Client and server keep tables of the valid values."""

HANDLES = {
    "array": "CUarray",
    "mipmap": "CUmipmappedArray",
    "texture": "CUtexObject",
    "surface": "CUsurfObject",
    "graph": "CUgraph",
    "condition": "CUgraphConditionalHandle",
    "node": "CUgraphNode",
    "exec": "CUgraphExec",
    "memory": "CUmemGenericAllocationHandle",
}

WORDS = {
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


HANDLE_TYPE = re.compile(
    r"CU(context|stream|event|function|module|kernel|library|graph|graphNode|graphExec"
    r"|array|mipmappedArray|texObject|surfObject|device)$"
)


class RoleError(Exception):
    """An unknown, missing or inconsistent role."""


@dataclass(frozen=True)
class Role:
    """The role of one argument.

    `word` is one of WORDS, OBJECTS or "value"; `verb` is new, free, list or empty; `count` names
    the argument with the number of elements.
    """

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
    """Return the role for its text in the specification. Raises RoleError."""
    match = ROLE.match(text)
    if not match:
        raise RoleError(text)
    role = Role(match["word"], match["verb"] or "", bool(match["optional"]), match["count"] or "")
    known = role.word in WORDS or role.is_object or (role.is_list and not role.word)
    wants_object = role.verb in {"new", "free"}
    if not known or (wants_object and not role.is_object) or (role.is_list and not role.count):
        raise RoleError(text)
    return role


def pointee(parameter: Parameter) -> str:
    """Return the type that a parameter points to, without const."""
    return re.sub(r"^const\s+", "", parameter.type.rsplit("*", 1)[0].strip())


def of_call(name: str, given: dict[str, str], prototype: Prototype) -> list[Role]:
    """Return the roles of all parameters, in order.

    Raises:
        RoleError: a pointer or handle has no role, or a role names no parameter.
    """
    unknown = set(given) - {p.name for p in prototype.parameters}
    roles = []
    for p in prototype.parameters:
        if p.name in given:
            roles.append(parse(given[p.name]))
        elif "*" in p.type or HANDLE_TYPE.match(p.type):
            raise RoleError(f"{name}: argument {p.name} of type {p.type} needs a role")
        else:
            roles.append(Role("value"))
    if unknown:
        raise RoleError(f"{name} has no argument {sorted(unknown)[0]}")
    return roles


def wire_order(roles: list[Role]) -> list[int]:
    """Return the order of the arguments in a record: arrays last, after their counts."""
    return sorted(range(len(roles)), key=lambda i: bool(roles[i].count and not roles[i].is_list))


def owner(created: Role, roles: list[Role], objects: str) -> str:
    """Return the C++ expression for the object that owns a new object.

    A node is owned by its graph, the graph in a node by that node, a level by its mipmap.
    """
    given = [(i, r) for i, r in enumerate(roles) if not r.verb and not r.count]
    whole = {"node": ("graph",), "condition": ("graph",), "array": ("mipmap", "array")}.get(
        created.word, ()
    )
    for i, r in given:
        if r.word in whole:
            return f"(uint64_t)a{i}"
    for i, r in given:
        if r.word == "node" and created.word == "graph":
            return f"(uint64_t)a{i}"
        if r.word == "node" and created.word == "node":
            return f"{objects}.owner(ObjectKind::node, (uint64_t)a{i})"
    return "0"
