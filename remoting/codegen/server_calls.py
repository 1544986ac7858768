"""Server dispatch of the generated calls: decode, resolve handles, call the driver, reply."""

from __future__ import annotations

from remoting.codegen import spec
from remoting.codegen.headers import Prototype
from remoting.codegen.roles import HANDLES, Role, of_call, owner, pointee, wire_order

Lines = list[str]
ATTRIBUTE_ID = "CUkernelNodeAttrID"


def element(prototype: Prototype, i: int) -> str:
    return pointee(prototype.parameters[i])


def take(i: int, role: Role, prototype: Prototype, index: dict[str, int]) -> tuple[Lines, str]:
    """Return the lines that decode argument i, and the expression that passes it."""
    kind = prototype.parameters[i].type
    if role.word == "stream":
        return [], "stream"
    if role.word == "zero":
        return [], "0"
    if role.verb == "new":
        return [f"  {HANDLES[role.word]} a{i}{{}};\n"], f"&a{i}"
    if role.word == "out":
        return [f"  {element(prototype, i)} a{i}{{}};\n"], f"&a{i}"
    if role.word in {"function", "event", "context", "device"}:
        return [f"  auto a{i} = s.{role.word}_handle(in.get<uint32_t>());\n"], f"a{i}"
    if role.word == "count":
        return [
            f"  auto a{i} = in.get<uint64_t>();\n",
            f"  if (a{i} > wire::kMaxListElements) return CUDA_ERROR_INVALID_VALUE;\n",
        ], f"(size_t*)&a{i}"
    if role.is_list:
        return [f"  bool given{i} = in.get<uint8_t>();\n"], f"given{i} ? list{i}.data() : nullptr"
    if role.count:
        return take_array(i, role, element(prototype, i), index[role.count])
    if role.word == "in":
        return take_struct(i, role, element(prototype, i))
    return [f"  auto a{i} = wire::take<{kind}>(in);\n"], f"a{i}"


def take_array(i: int, role: Role, kind: str, count: int) -> tuple[Lines, str]:
    given = (
        f"  bool given{i} = in.get<uint8_t>();\n"
        if role.optional
        else f"  bool given{i} = a{count} > 0;\n"
    )
    lines = [
        given,
        f"  std::vector<{kind}> a{i};\n",
        f"  if (given{i} && !in.elements(a{i}, a{count})) return CUDA_ERROR_INVALID_VALUE;\n",
    ]
    return lines, f"a{i}.empty() ? nullptr : a{i}.data()"


def take_struct(i: int, role: Role, kind: str) -> tuple[Lines, str]:
    refuse = f"  if (!s.accepts(a{i})) return CUDA_ERROR_INVALID_VALUE;\n"
    if not role.optional:
        return [f"  auto a{i} = in.get<{kind}>();\n", refuse], f"&a{i}"
    lines = [
        f"  bool given{i} = in.get<uint8_t>();\n  {kind} a{i}{{}};\n",
        f"  if (given{i}) a{i} = in.get<{kind}>();\n",
        refuse,
    ]
    return lines, f"given{i} ? &a{i} : nullptr"


def validate(i: int, role: Role) -> Lines:
    if not role.is_object or role.verb in {"new", "list"}:
        return []
    if role.count:
        return [
            f"  for (auto v : a{i}) if (!s.objects.contains(ObjectKind::{role.word}, (uint64_t)v))",
            f" return invalid_object_error(ObjectKind::{role.word});\n",
        ]
    unless = f"a{i} && " if role.optional else ""
    lines = [
        f"  if ({unless}!s.objects.contains(ObjectKind::{role.word}, (uint64_t)a{i}))",
        f" return invalid_object_error(ObjectKind::{role.word});\n",
    ]
    if role.verb == "free" and role.word == "graph":  # of a node, or of a capture
        lines.append(f"  if (s.objects.owner(ObjectKind::graph, (uint64_t)a{i}))")
        lines.append(" return CUDA_ERROR_INVALID_VALUE;\n")
    return lines


def encode_result(i: int, role: Role, belongs: str) -> Lines:
    if role.verb == "new":
        return [
            f"  s.objects.add(ObjectKind::{role.word}, (uint64_t)a{i}, {belongs});\n",
            f"  append(out, a{i});\n",
        ]
    if role.verb == "free":
        return [f"  s.objects.remove(ObjectKind::{role.word}, (uint64_t)a{i});\n"]
    if role.word == "out":
        return [f"  append(out, a{i});\n"]
    if role.word == "count":
        return [f"  append(out, a{i});\n"]
    return []


def encode_list(i: int, role: Role, belongs: str) -> Lines:
    add = (
        f" if (list{i}[k]) s.objects.add(ObjectKind::{role.word}, (uint64_t)list{i}[k], {belongs});"
        if role.is_object
        else ""
    )
    return [f"  for (size_t k = 0; k < list{i}.size(); ++k) {{ append(out, list{i}[k]);{add} }}\n"]


def keep_attribute_fields(prototype: Prototype) -> Lines:
    """Return the lines that refuse attributes of kernel nodes which may not be set or read."""
    types = [p.type for p in prototype.parameters]
    if ATTRIBUTE_ID not in types:
        return []
    name = types.index(ATTRIBUTE_ID)
    value = next(i for i, t in enumerate(types) if "AttrValue" in t)
    call = f"wire::keep_fields(a{name}, wire::AttributeUse::node, a{value})"
    return [f"  if (CUresult refused = {call}) return refused;\n"]


def dispatch(call: spec.Call, prototype: Prototype) -> str:
    """Return the function that executes a record of this call."""
    roles = of_call(call.name, call.roles, prototype)
    index = {p.name: i for i, p in enumerate(prototype.parameters)}
    parameters = "Session& s, wire::Decoder& in, CUstream stream, std::string& out"
    lines = [
        f"static CUresult call_{call.name}({parameters}) {{\n",
        "  (void)s; (void)stream; (void)out;\n",
    ]
    passed: dict[int, str] = {}
    for i in wire_order(roles):
        decode, passed[i] = take(i, roles[i], prototype, index)
        lines += decode
    lines.append("  if (!in.ok()) return CUDA_ERROR_INVALID_VALUE;\n")
    lines += [line for i, r in enumerate(roles) for line in validate(i, r)]
    lines += keep_attribute_fields(prototype)
    count = next((f"a{i}" for i, r in enumerate(roles) if r.word == "count"), "0")
    lines += [
        # An empty list still has an address: without one the driver returns the length.
        f"  std::vector<{element(prototype, i)}> list{i}(given{i} ? {count} : 0);\n"
        f"  list{i}.reserve(1);\n"
        for i, r in enumerate(roles)
        if r.is_list
    ]
    arguments = ", ".join(passed[i] for i in range(len(roles)))
    lines.append(f"  if (!s.cu.{call.name}) return CUDA_ERROR_NOT_SUPPORTED;\n")
    lines.append(f"  CUresult r = s.cu.{call.name}({arguments});\n")
    if "result_on_error" not in call.flags:
        lines.append("  if (r) return r;\n")
    for i, r in enumerate(roles):
        if not r.is_list:
            lines += encode_result(i, r, owner(r, roles, "s.objects"))
    for i, r in enumerate(roles):
        if r.is_list:
            lines += encode_list(i, r, owner(r, roles, "s.objects"))
    lines.append("  return r;\n}\n")
    return "".join(lines)


def table(calls: list[spec.Call]) -> str:
    """Return the rows of the generated calls: opcode, order and thread of each handler."""
    rows = [
        f'    {{{call.number:#06x}, {{.name = "{call.name}",'
        f" .order = wire::Order::{'immediate' if call.kind == 'reply' else 'stream'},"
        f" .thread = wire::Thread::{'code' if 'helper' in call.flags else 'executor'},"
        f" .call = call_{call.name}"
        f"{', .work_waits = true' if 'waits' in call.flags else ''}"
        f"{', .uses_gpu = true' if 'gpu' in call.flags else ''}"
        f"{', .exec_at = kExecOfCall' if 'changes_exec' in call.flags else ''}}}}},\n"
        for call in calls
    ]
    return "".join(["static constexpr GeneratedCall kGeneratedCalls[] = {\n", *rows, "};\n"])
