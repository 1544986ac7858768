"""Client stubs, server dispatch and opcodes of the generated calls; the coverage page."""

from __future__ import annotations

import argparse
from pathlib import Path

from remoting.codegen import client_calls, headers, server_calls, spec
from remoting.codegen.libraries import BANNER, write
from remoting.codegen.tested import tested

# Some calls are deprecated; programs make them all the same.
OLD_NAMES = '#pragma GCC diagnostic push\n#pragma GCC diagnostic ignored "-Wdeprecated-declarations"\n{}#pragma GCC diagnostic pop\n'


def coverage(calls: dict[str, spec.Call], refused: dict[str, str], tests: dict[str, str]) -> str:
    lines = [
        "# Coverage of the CUDA driver API\n\n",
        "Generated from `remoting/spec`; `./test` fails when it is stale.\n\n",
        "| function | state | test, how, or why not |\n|---|---|---|\n",
    ]
    rows = [(c.name, "tested", tests[c.name]) for c in calls.values() if c.name in tests]
    rows += [
        (c.name, "implemented", c.kind if not c.alias else f"{c.kind}, by {c.alias}")
        for c in calls.values()
        if c.name not in tests
    ]
    rows += [(name, "refused", reason) for name, reason in refused.items()]
    lines += [f"| `{name}` | {state} | {how} |\n" for name, state, how in sorted(rows)]
    return "".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=Path, required=True)
    parser.add_argument(
        "--spec",
        type=Path,
        required=True,
        help="folder with cuda_driver.spec and cuda_driver.refused",
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--coverage", type=Path, help="write the coverage page here instead")
    arguments = parser.parse_args()
    found = {
        s: p
        for s, p in headers.cuda_prototypes(arguments.include / "cuda.h").items()
        if headers.base_name(s) == s
    }
    calls = spec.read(arguments.spec / "cuda_driver.spec")
    refused = spec.read_refused(arguments.spec / "cuda_driver.refused")
    spec.check_complete(calls, refused, set(found))
    if arguments.coverage:
        tests = tested(arguments.include / "cuda.h", arguments.spec.parent.parent / "tests")
        write(arguments.coverage, coverage(calls, refused, tests))
        return
    generated = [c for c in calls.values() if c.number is not None]
    wrapped = [c for c in generated if c.body == "wrapped"]
    client = [
        BANNER,
        '#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n#include "client/call.h"\nusing namespace busbar;\nusing namespace busbar::client;\n',
    ]
    client += [
        "namespace busbar::client {\n",
        *(client_calls.stub(c, found[c.name]) for c in wrapped),
        "}\n",
    ]
    client += [client_calls.stub(c, found[c.name]) for c in generated if c not in wrapped]
    client += [
        client_calls.alias_stub(c, found[c.name], found[c.alias]) for c in calls.values() if c.alias
    ]
    server = [BANNER] + [server_calls.dispatch(c, found[c.name]) for c in generated]
    server.append("static const GeneratedCall kGeneratedCalls[] = {\n")
    server += [
        f'    {{{c.number:#06x}, "{c.name}", {str(c.kind == "reply").lower()}, {str("helper" in c.flags).lower()}, call_{c.name}}},\n'
        for c in generated
    ]
    server.append("};\n")
    arguments.output.mkdir(parents=True, exist_ok=True)
    write(arguments.output / "client_calls.cc", "".join(client))
    write(arguments.output / "server_calls.inc", "".join(server))
    declared = "".join(f"{client_calls.opening(c, found[c.name])};\n" for c in wrapped)
    write(arguments.output / "wrapped_calls.inc", BANNER + declared)
    write(
        arguments.output / "driver_calls.inc",
        BANNER + OLD_NAMES.format("".join(f"CU({c.name})\n" for c in generated)),
    )


if __name__ == "__main__":
    main()
