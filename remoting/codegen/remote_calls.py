"""Client stubs, server dispatch and opcodes of the generated calls; the coverage page."""

from __future__ import annotations

import argparse
from pathlib import Path

from remoting.codegen import client_calls, coverage_page, enumerations, headers, server_calls, spec
from remoting.codegen.libraries import BANNER, write

# Programs still use deprecated calls.
ALLOW_DEPRECATED = (
    "#pragma GCC diagnostic push\n"
    '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"\n'
    "{}#pragma GCC diagnostic pop\n"
)
CLIENT_HEAD = """\
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include "checked_size.h"
#include "client/call.h"
#include "client/mapped.h"
#include "client/peer_copy.h"
#include "wire/enumeration.h"
#include "wire/growing_encoder.h"
using namespace busbar;
using namespace busbar::client;
"""


def client_source(calls: dict[str, spec.Call], prototypes: dict[str, headers.Prototype]) -> str:
    """Return client_calls.cc: stubs of generated calls, and aliases that need the client."""
    generated = [c for c in calls.values() if c.number is not None]
    wrapped = [c for c in generated if c.body == "wrapped"]
    lines = [BANNER, CLIENT_HEAD, "namespace busbar::client {\n"]
    lines += [client_calls.stub(c, prototypes[c.name]) for c in wrapped]
    lines.append("}\n")
    lines += [client_calls.stub(c, prototypes[c.name]) for c in generated if c not in wrapped]
    for c in calls.values():
        if c.alias and is_synchronous(c):
            lines.append(client_calls.alias_stub(c, prototypes[c.name], prototypes[c.alias]))
    return "".join(lines)


def is_synchronous(call: spec.Call) -> bool:
    """Return whether an alias has no stream and its target has one."""
    return "legacy" in call.roles.values()


def alias_source(calls: dict[str, spec.Call], prototypes: dict[str, headers.Prototype]) -> str:
    """Return cuda_aliases.cc: the other aliases, which both libcuda libraries have."""
    lines = [BANNER, "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"]
    for c in calls.values():
        if c.alias and not is_synchronous(c):
            lines.append(client_calls.alias_stub(c, prototypes[c.name], prototypes[c.alias]))
    return "".join(lines)


def server_source(generated: list[spec.Call], prototypes: dict[str, headers.Prototype]) -> str:
    """Return server_calls.inc: dispatch functions and their table."""
    lines = [BANNER] + [server_calls.dispatch(c, prototypes[c.name]) for c in generated]
    return "".join([*lines, server_calls.table(generated)])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--include", type=Path, required=True, help="folder with cuda.h")
    parser.add_argument(
        "--spec",
        type=Path,
        required=True,
        help="folder with cuda_driver.spec and cuda_driver.refused",
    )
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--coverage", type=Path, help="write only this coverage page")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    prototypes = {
        s: p
        for s, p in headers.cuda_prototypes(arguments.include / "cuda.h").items()
        if headers.base_name(s) == s
    }
    calls = spec.read(arguments.spec / "cuda_driver.spec")
    refused = spec.read_refused(arguments.spec / "cuda_driver.refused")
    spec.check_complete(calls, refused, set(prototypes))
    refused |= {
        name: "windows are on the client, the GPU is on the node"
        for name in headers.graphics_functions(arguments.include)
        if headers.base_name(name) == name
    }
    if arguments.coverage:
        root = arguments.spec.parent.parent
        write(arguments.coverage, coverage_page.page(root, arguments.include, calls, refused))
        return
    generated = [c for c in calls.values() if c.number is not None]
    wrapped = [c for c in generated if c.body == "wrapped"]
    arguments.output.mkdir(parents=True, exist_ok=True)
    write(arguments.output / "client_calls.cc", client_source(calls, prototypes))
    write(arguments.output / "cuda_aliases.cc", alias_source(calls, prototypes))
    write(arguments.output / "server_calls.inc", server_source(generated, prototypes))
    known = enumerations.of_header(arguments.include / "cuda.h")
    write(arguments.output / "enumerations.inc", BANNER + enumerations.source(known))
    declared = "".join(f"{client_calls.signature(c, prototypes[c.name])};\n" for c in wrapped)
    write(arguments.output / "wrapped_calls.inc", BANNER + declared)
    names = "".join(f"CU({c.name})\n" for c in generated)
    write(arguments.output / "driver_calls.inc", BANNER + ALLOW_DEPRECATED.format(names))


if __name__ == "__main__":
    main()
