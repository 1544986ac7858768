"""Client stubs of the generated calls: check arguments, encode, send, decode the reply."""

from __future__ import annotations

from remoting.codegen import spec
from remoting.codegen.headers import Prototype
from remoting.codegen.libraries import declare
from remoting.codegen.roles import HANDLES, Role, RoleError, of_call, owner, pointee, wire_order

Lines = list[str]

OBJECTS = "session()->objects"


def between_nodes(roles: list[Role]) -> Lines:
    """Call the hand-written copy if the pointers are on different nodes."""
    remote = " || ".join(f"!call.on_link(a{i})" for i, r in enumerate(roles) if r.word == "either")
    arguments = ", ".join(f"a{i}" for i in range(len(roles)))
    return [f"  if ({remote}) return copy_between_nodes({arguments});\n"] if remote else []


def check(i: int, role: Role, counts: dict[str, str]) -> Lines:
    """Check what the client can check without the node."""
    must_point = role.verb == "new" or role.word in {"in", "out", "count"}
    if must_point and not role.optional and not role.count:
        return [f"  if (!a{i}) return CUDA_ERROR_INVALID_VALUE;\n"]
    if role.count and not role.is_list:
        missing = "" if role.optional else f"(!a{i} && {counts[role.count]}) || "
        too_many = f"{counts[role.count]} > kMaxElements"
        return [f"  if ({missing}{too_many}) return CUDA_ERROR_INVALID_VALUE;\n"]
    return []


def resolve(i: int, role: Role, counts: dict[str, str]) -> Lines:
    """Replace handles by the ids that the wire carries; check object handles."""
    if role.word in {"pointer", "either"}:
        return [f"  if (CUresult r = call.move_to_node_of(a{i})) return r;\n"]
    if role.word in {"function", "event", "context", "device"} and not role.verb:
        return [
            f"  uint32_t h{i} = 0;\n  if (CUresult r = call.{role.word}(a{i}, h{i})) return r;\n"
        ]
    if role.is_object and role.verb in {"", "free"}:
        if role.count:
            check_object = f"call.require_object(ObjectKind::{role.word}, (uint64_t)a{i}[i])"
            return [
                f"  for (size_t i = 0; a{i} && i < {counts[role.count]}; ++i)",
                f" if (CUresult r = {check_object}) return r;\n",
            ]
        unless = f"a{i} && " if role.optional else ""
        return [
            f"  if ({unless}!call.select_node_of(ObjectKind::{role.word}, (uint64_t)a{i}))",
            f" return invalid_object_error(ObjectKind::{role.word});\n",
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
            f"  *a{i} = reply.get<{HANDLES[role.word]}>();\n",
            f"  call.add_object(ObjectKind::{role.word}, (uint64_t)*a{i}, {belongs});\n",
        ]
    if role.word == "out":
        return [f"  {{ auto v = wire::take<{pointee(p)}>(reply); if (a{i}) *a{i} = v; }}\n"]
    if role.word == "count":
        return [
            f"  uint64_t room = *a{i};\n",
            f"  *a{i} = (std::remove_reference_t<decltype(*a{i})>)reply.get<uint64_t>();\n",
        ]
    return []


def decode_list(i: int, role: Role, belongs: str) -> Lines:
    register = (
        f" call.add_object(ObjectKind::{role.word}, (uint64_t)a{i}[k], {belongs});"
        if role.is_object
        else ""
    )
    return [
        f"  if (a{i}) for (uint64_t k = 0; k < room; ++k)",
        f" {{ a{i}[k] = reply.get<std::remove_reference_t<decltype(*a{i})>>();{register} }}\n",
    ]


def restore_removed(roles: list[Role]) -> str:
    return (
        "call.restore_objects(std::move(removed)); " if any(r.verb == "free" for r in roles) else ""
    )


def begin(call: spec.Call, roles: list[Role]) -> Lines:
    lines = ["  Call call;\n"]
    stream = next((f"a{i}" for i, r in enumerate(roles) if r.word == "stream"), "kNoStreamHandle")
    opened = "begin_without_context()" if "anywhere" in call.flags else f"begin({stream})"
    lines.append(f"  if (CUresult r = call.{opened}) return r;\n")
    if "unsafe" in call.flags:
        lines.append("  if (CUresult r = unsafe_in_capture()) return r;\n")
    return lines


def signature(call: spec.Call, prototype: Prototype) -> str:
    """Return the signature; a wrapped call is send_NAME, called by the hand-written NAME."""
    parameters = ", ".join(declare(p, i) for i, p in enumerate(prototype.parameters))
    return (
        f"CUresult send_{call.name}({parameters})"
        if call.body == "wrapped"
        else f'extern "C" CUresult {call.name}({parameters})'
    )


def stub(call: spec.Call, prototype: Prototype) -> str:
    """Return the definition of a generated call."""
    roles = of_call(call.name, call.roles, prototype)
    counts = {p.name: f"a{i}" for i, p in enumerate(prototype.parameters)}
    each = list(enumerate(roles))
    lines = [f"{signature(call, prototype)} {{\n"]
    lines += [line for i, r in each for line in check(i, r, counts)]
    lines += begin(call, roles) + between_nodes(roles)
    lines += [line for i, r in each for line in resolve(i, r, counts)]
    if "drain" in call.flags:
        lines.append("  if (CUresult r = call.drain()) return r;\n")
    lines += encode_request(call, roles, prototype, counts)
    if call.kind == "send":
        return "".join([*lines, "  return call.send(e.finish(), e.size());\n}\n"])
    lines.append("  wire::Decoder reply = call.send_and_wait(e.finish(), e.size());\n")
    unless = " && !reply.left()" if "result_on_error" in call.flags else ""
    lines.append(
        f"  if (call.status(){unless}) {{ {restore_removed(roles)}return call.status(); }}\n"
    )
    for i, r in each:
        if not r.is_list:
            lines += decode(i, r, prototype, owner(r, roles, OBJECTS))
    for i, r in each:
        if r.is_list:
            lines += decode_list(i, r, owner(r, roles, OBJECTS))
    return "".join([*lines, "  return reply.ok() ? call.status() : CUDA_ERROR_UNKNOWN;\n}\n"])


def encode_request(
    call: spec.Call, roles: list[Role], prototype: Prototype, counts: dict[str, str]
) -> Lines:
    """Encode the record; then remove the objects that the call frees from the registry."""
    large = any(r.count or r.word == "in" for r in roles)
    encoder = "GrowingEncoder" if large else "Encoder<>"
    arguments = f"(uint16_t){call.number:#06x}, call.context_id(), call.stream_id()"
    lines = [*check_room(roles, counts), f"  wire::{encoder} e({arguments});\n"]
    if call.kind == "reply":
        lines.append("  e.put(call.reply_id());\n")
    for i in wire_order(roles):
        lines += encode(i, roles[i], prototype.parameters[i].type, counts)
    for i, r in enumerate(roles):
        if r.verb == "free":
            lines.append(
                f"  auto removed = call.remove_object(ObjectKind::{r.word}, (uint64_t)a{i});\n"
            )
    return lines


def check_room(roles: list[Role], counts: dict[str, str]) -> Lines:
    """Refuse arrays that do not fit in the payload of a record."""
    arrays = [i for i, r in enumerate(roles) if r.count and not r.is_list and r.word != "out"]
    if not arrays:
        return []
    sizes = [f"CheckedSize(a{i} ? {counts[roles[i].count]} : 0) * sizeof *a{i}" for i in arrays]
    total = " + ".join(sizes)
    return [f"  if (!({total}).within(kMaxArrayBytes)) return CUDA_ERROR_INVALID_VALUE;\n"]


def alias_stub(call: spec.Call, prototype: Prototype, target: Prototype) -> str:
    """Return the definition of an alias, which calls its target with additional arguments."""
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
            raise RoleError(f"{call.name}: argument {p.name} of {target.symbol} has no role")
    parameters = ", ".join(declare(p, i) for i, p in enumerate(prototype.parameters))
    result = f"{target.symbol}({', '.join(arguments)})"
    if "legacy" in call.roles.values():
        # Synchronous if the first argument, the destination, is memory that the host can access.
        result = f"synchronize_if_mapped({result}, a0)"
    return f'extern "C" CUresult {call.name}({parameters}) {{ return {result}; }}\n'
