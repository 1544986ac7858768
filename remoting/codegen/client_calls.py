"""Client stubs of the generated calls: check, encode, submit or ask, take the answer apart."""

from __future__ import annotations

from remoting.codegen import spec
from remoting.codegen.headers import Prototype
from remoting.codegen.libraries import declare
from remoting.codegen.roles import HANDLES, Role, RoleError, of_call, owner, pointee, wire_order

Lines = list[str]

OBJECTS = "session()->objects"


def between_nodes(roles: list[Role]) -> Lines:
    """A call whose pointers may lie on two nodes leaves for the hand-written copy when they do."""
    away = " || ".join(f"!call.on_link(a{i})" for i, r in enumerate(roles) if r.word == "either")
    return (
        [
            f"  if ({away}) return copy_between_nodes({', '.join(f'a{i}' for i in range(len(roles)))});\n"
        ]
        if away
        else []
    )


def check(i: int, role: Role, counts: dict[str, str]) -> Lines:
    """What is wrong whatever the node says."""
    must_point = role.verb == "new" or role.word in {"in", "out", "count"}
    if must_point and not role.optional and not role.count:
        return [f"  if (!a{i}) return CUDA_ERROR_INVALID_VALUE;\n"]
    if role.count and not role.is_list:
        missing = "" if role.optional else f"(!a{i} && {counts[role.count]}) || "
        return [
            f"  if ({missing}{counts[role.count]} > kMostElements) return CUDA_ERROR_INVALID_VALUE;\n"
        ]
    return []


def resolve(i: int, role: Role, counts: dict[str, str]) -> Lines:
    """Names become what the wire carries."""
    if role.word in {"pointer", "either"}:
        return [f"  if (CUresult r = call.follow(a{i})) return r;\n"]
    if role.word in {"function", "event", "context", "device"} and not role.verb:
        return [
            f"  uint32_t h{i} = 0;\n  if (CUresult r = call.{role.word}(a{i}, h{i})) return r;\n"
        ]
    if role.is_object and role.verb in {"", "free"}:
        if role.count:
            known = f"call.use(ObjectKind::{role.word}, (uint64_t)a{i}[i])"
            return [
                f"  for (size_t i = 0; a{i} && i < {counts[role.count]}; ++i) if (CUresult r = {known}) return r;\n"
            ]
        unless = f"a{i} && " if role.optional else ""
        return [
            f"  if ({unless}!call.known(ObjectKind::{role.word}, (uint64_t)a{i})) return unknown_object(ObjectKind::{role.word});\n"
        ]
    return []


def encode(i: int, role: Role, kind: str, counts: dict[str, str]) -> Lines:
    put = "  e.put({});\n".format
    if role.word in {"stream", "zero", "out", "legacy"} or role.verb == "new":
        return []
    if role.word in {"function", "event", "context", "device"}:
        return [put(f"h{i}")]
    if role.is_list:
        return [put(f"(uint8_t)(a{i} != nullptr)")]
    if role.word == "count":
        return [put(f"(uint64_t)*a{i}")]
    if role.count:
        given = [put(f"(uint8_t)(a{i} != nullptr)")] if role.optional else []
        return [*given, f"  if (a{i}) e.raw(a{i}, {counts[role.count]} * sizeof *a{i});\n"]
    if role.word == "in":
        given = [put(f"(uint8_t)(a{i} != nullptr)")] if role.optional else []
        return [*given, f"  if (a{i}) e.put(*a{i});\n"]
    return [put(f"({kind})a{i}")]


def decode(i: int, role: Role, prototype: Prototype, belongs: str) -> Lines:
    p = prototype.parameters[i]
    if role.verb == "new":
        return [
            f"  *a{i} = answer.get<{HANDLES[role.word]}>();\n  call.remember(ObjectKind::{role.word}, (uint64_t)*a{i}, {belongs});\n"
        ]
    if role.word == "out":
        return [f"  {{ auto v = answer.get<{pointee(p)}>(); if (a{i}) *a{i} = v; }}\n"]
    if role.word == "count":
        return [
            f"  uint64_t room = *a{i};\n  *a{i} = (std::remove_reference_t<decltype(*a{i})>)answer.get<uint64_t>();\n"
        ]
    return []


def decode_list(i: int, role: Role, belongs: str) -> Lines:
    noted = (
        f" call.remember(ObjectKind::{role.word}, (uint64_t)a{i}[k], {belongs});"
        if role.is_object
        else ""
    )
    return [
        f"  if (a{i}) for (uint64_t k = 0; k < room; ++k) {{ a{i}[k] = answer.get<std::remove_reference_t<decltype(*a{i})>>();{noted} }}\n"
    ]


def given_back(roles: list[Role]) -> str:
    return "call.put_back(std::move(taken)); " if any(r.verb == "free" for r in roles) else ""


def begin(call: spec.Call, roles: list[Role]) -> Lines:
    lines = ["  Call call;\n"]
    stream = next((f"a{i}" for i, r in enumerate(roles) if r.word == "stream"), "kNoStreamHandle")
    opened = "begin_anywhere()" if "anywhere" in call.flags else f"begin({stream})"
    lines.append(f"  if (CUresult r = call.{opened}) return r;\n")
    if "unsafe" in call.flags:
        lines.append("  if (CUresult r = unsafe_in_capture()) return r;\n")
    return lines


def opening(call: spec.Call, prototype: Prototype) -> str:
    """A wrapped call has a name of its own: the exported function is hand-written and calls it."""
    parameters = ", ".join(declare(p, i) for i, p in enumerate(prototype.parameters))
    return (
        f"CUresult node_{call.name}({parameters})"
        if call.body == "wrapped"
        else f'extern "C" CUresult {call.name}({parameters})'
    )


def stub(call: spec.Call, prototype: Prototype) -> str:
    roles = of_call(call.name, call.roles, prototype)
    counts = {p.name: f"a{i}" for i, p in enumerate(prototype.parameters)}
    each = list(enumerate(roles))
    lines = [f"{opening(call, prototype)} {{\n"]
    lines += [line for i, r in each for line in check(i, r, counts)]
    lines += begin(call, roles) + between_nodes(roles)
    lines += [line for i, r in each for line in resolve(i, r, counts)]
    if "drain" in call.flags:
        lines.append("  if (CUresult r = call.drain()) return r;\n")
    large = any(r.count or r.word == "in" for r in roles)
    lines.append(
        f"  wire::Encoder<{'kLongRequest' if large else '512'}> e((uint16_t){call.number:#06x}, call.context_id(), call.stream_id());\n"
    )
    if call.kind == "reply":
        lines.append("  e.put(call.reply_id());\n")
    lines += [
        line
        for i in wire_order(roles)
        for line in encode(i, roles[i], prototype.parameters[i].type, counts)
    ]
    lines += [
        f"  auto taken = call.take(ObjectKind::{r.word}, (uint64_t)a{i});\n"
        for i, r in each
        if r.verb == "free"
    ]
    if call.kind == "fire":
        return "".join([*lines, "  return call.fire(e.finish(), e.size());\n}\n"])
    lines.append("  wire::Decoder answer = call.answer(e.finish(), e.size());\n")
    lines.append(f"  if (call.status()) {{ {given_back(roles)}return call.status(); }}\n")
    lines += [
        line
        for i, r in each
        if not r.is_list
        for line in decode(i, r, prototype, owner(r, roles, OBJECTS))
    ]
    lines += [
        line for i, r in each if r.is_list for line in decode_list(i, r, owner(r, roles, OBJECTS))
    ]
    return "".join([*lines, "  return answer.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;\n}\n"])


def alias_stub(call: spec.Call, prototype: Prototype, target: Prototype) -> str:
    own = {p.name: i for i, p in enumerate(prototype.parameters)}
    arguments = []
    for p in target.parameters:
        if p.name in own:
            arguments.append(f"a{own[p.name]}")
        elif call.roles.get(p.name) == "legacy":
            arguments.append("(CUstream)0")
        elif call.roles.get(p.name) == "zero":
            arguments.append("0")
        else:
            raise RoleError(f"{call.name}: {target.symbol} wants {p.name}, which has no role")
    parameters = ", ".join(declare(p, i) for i, p in enumerate(prototype.parameters))
    made = f"{target.symbol}({', '.join(arguments)})"
    if (
        "legacy" in call.roles.values()
    ):  # done before it returns where the program itself can look: its first argument is where it writes
        made = f"seen_by_host({made}, a0)"
    return f'extern "C" CUresult {call.name}({parameters}) {{ return {made}; }}\n'
