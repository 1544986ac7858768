"""Client stubs, server dispatch and opcodes of the generated calls; the coverage page."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from remoting.codegen import headers, spec
from remoting.codegen.libraries import BANNER, declare, write

HANDLES = {"stream": "stream", "event": "event", "function": "function", "module": "module"}


def role(call: spec.Call, parameter: headers.Parameter) -> str:
    given = call.roles.get(parameter.name)
    if given:
        return given
    if "*" in parameter.type or re.match(r"CU(context|stream|event|function|module|kernel|library|graph)$", parameter.type):
        raise spec.SpecError(f"{call.name}: argument {parameter.name} of type {parameter.type} needs a role")
    return "value"


def pointee(parameter: headers.Parameter) -> str:
    return parameter.type.rsplit("*", 1)[0].strip()


def between_nodes(roles: list[str]) -> list[str]:
    """A call whose pointers may lie on two nodes leaves for the hand-written copy when they do."""
    away = " || ".join(f"!call.on_link(a{i})" for i, r in enumerate(roles) if r == "either")
    return [f"  if ({away}) return copy_between_nodes({', '.join(f'a{i}' for i in range(len(roles)))});\n"] if away else []


def client_stub(call: spec.Call, prototype: headers.Prototype) -> str:
    parameters = ", ".join(declare(p, i) for i, p in enumerate(prototype.parameters))
    roles = [role(call, p) for p in prototype.parameters]
    lines = [f'extern "C" CUresult {call.name}({parameters}) {{\n']
    for i, r in enumerate(roles):
        if r == "out":
            lines.append(f"  if (!a{i}) return CUDA_ERROR_INVALID_VALUE;\n")
    stream = next((f"a{i}" for i, r in enumerate(roles) if r == "stream"), None)
    lines.append(f"  Call call;\n  if (CUresult r = call.begin({stream or 'kNoStreamHandle'})) return r;\n")
    lines += between_nodes(roles)
    for i, r in enumerate(roles):
        if r in {"pointer", "either"}:
            lines.append(f"  if (CUresult r = call.follow(a{i})) return r;\n")
        if r == "function":
            lines.append(f"  uint32_t h{i} = call.function(a{i});\n  if (!h{i}) return CUDA_ERROR_INVALID_HANDLE;\n")
    lines.append(f"  wire::Encoder<> e((uint16_t){call.number:#06x}, call.context_id(), call.stream_id());\n")
    if call.kind == "reply":
        lines.append("  e.put(call.reply_id());\n")
    for i, (p, r) in enumerate(zip(prototype.parameters, roles, strict=True)):
        if r == "function":
            lines.append(f"  e.put(h{i});\n")
        elif r in {"value", "pointer", "either"}:
            lines.append(f"  e.put(({p.type})a{i});\n")
    if call.kind == "fire":
        lines.append("  return call.fire(e.finish(), e.size());\n}\n")
        return "".join(lines)
    lines.append("  wire::Decoder answer = call.answer(e.finish(), e.size());\n  if (call.status()) return call.status();\n")
    for i, (p, r) in enumerate(zip(prototype.parameters, roles, strict=True)):
        if r == "out":
            lines.append(f"  *a{i} = answer.get<{pointee(p)}>();\n")
    lines.append("  return answer.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;\n}\n")
    return "".join(lines)


def alias_stub(call: spec.Call, prototype: headers.Prototype, target: headers.Prototype) -> str:
    own = {p.name: i for i, p in enumerate(prototype.parameters)}
    arguments = []
    for p in target.parameters:
        if p.name in own:
            arguments.append(f"a{own[p.name]}")
        elif call.roles.get(p.name) == "legacy":
            arguments.append("(CUstream)0")
        else:
            raise spec.SpecError(f"{call.name}: {target.symbol} wants {p.name}, which has no role")
    parameters = ", ".join(declare(p, i) for i, p in enumerate(prototype.parameters))
    return f'extern "C" CUresult {call.name}({parameters}) {{ return {target.symbol}({", ".join(arguments)}); }}\n'


def server_dispatch(call: spec.Call, prototype: headers.Prototype) -> str:
    lines = [f"static CUresult call_{call.name}(Session& s, wire::Decoder& in, CUstream stream, std::string& out) {{\n  (void)s; (void)stream; (void)out;\n"]
    arguments = []
    results = []
    for i, p in enumerate(prototype.parameters):
        r = role(call, p)
        if r == "stream":
            arguments.append("stream")
        elif r == "function":
            lines.append(f"  CUfunction a{i} = s.function(in.get<uint32_t>());\n")
            arguments.append(f"a{i}")
        elif r == "out":
            lines.append(f"  {pointee(p)} a{i}{{}};\n")
            arguments.append(f"&a{i}")
            results.append(f"a{i}")
        else:
            lines.append(f"  auto a{i} = in.get<{p.type}>();\n")
            arguments.append(f"a{i}")
    lines.append("  if (!in.ok()) return CUDA_ERROR_INVALID_VALUE;\n")
    lines.append(f"  CUresult r = s.cu.{call.name}({', '.join(arguments)});\n")
    lines += [f"  if (!r) out.append((const char*)&{v}, sizeof {v});\n" for v in results]
    lines.append("  return r;\n}\n")
    return "".join(lines)


def coverage(calls: dict[str, spec.Call], refused: dict[str, str]) -> str:
    lines = [
        "# Coverage of the CUDA driver API\n\n",
        "Generated from `remoting/spec`; `./test` fails when it is stale.\n\n",
        "| function | state | how, or why not |\n|---|---|---|\n",
    ]
    rows = [(c.name, "implemented", c.kind if not c.alias else f"{c.kind}, by {c.alias}") for c in calls.values()]
    rows += [(name, "refused", reason) for name, reason in refused.items()]
    lines += [f"| `{name}` | {state} | {how} |\n" for name, state, how in sorted(rows)]
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument("--spec", type=Path, required=True, help="folder with cuda_driver.spec and cuda_driver.refused")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--coverage", type=Path, help="write the coverage page here instead")
    arguments = parser.parse_args()
    found = {s: p for s, p in headers.cuda_prototypes(arguments.include / "cuda.h").items() if headers.base_name(s) == s}
    calls = spec.read(arguments.spec / "cuda_driver.spec")
    refused = spec.read_refused(arguments.spec / "cuda_driver.refused")
    spec.check_complete(calls, refused, set(found))
    if arguments.coverage:
        write(arguments.coverage, coverage(calls, refused))
        return
    generated = [c for c in calls.values() if c.body == "generated"]
    client = [
        BANNER,
        '#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include "client/call.h"\nusing namespace busbar;\nusing namespace busbar::client;\n',
    ]
    client += [client_stub(c, found[c.name]) for c in generated]
    client += [alias_stub(c, found[c.name], found[c.alias]) for c in calls.values() if c.alias]
    server = [BANNER] + [server_dispatch(c, found[c.name]) for c in generated]
    server.append("static const GeneratedCall kGeneratedCalls[] = {\n")
    server += [f'    {{{c.number:#06x}, "{c.name}", {str(c.kind == "reply").lower()}, call_{c.name}}},\n' for c in generated]
    server.append("};\n")
    arguments.output.mkdir(parents=True, exist_ok=True)
    write(arguments.output / "client_calls.cc", "".join(client))
    write(arguments.output / "server_calls.inc", "".join(server))
    write(arguments.output / "driver_calls.inc", BANNER + "".join(f"CU({c.name})\n" for c in generated))


if __name__ == "__main__":
    main()
