"""The program of the generated calls: its generated table and its build."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path

from deploy.supervisor import BUILD
from remoting.codegen.libraries import BANNER
from tests.remoting.calls import forms
from tests.remoting.calls.exported import Argument, Function, entry_points, functions
from tests.remoting.conftest import PROGRAMS, cuda_include

SOURCES = Path(__file__).parent
HEAD = """\
#define __CUDA_API_VERSION_INTERNAL
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <cuda.h>
#include <nvml.h>
#include "function.h"
namespace {
"""
TAIL = """\
}
const std::span<const Function> kAllFunctions = functions;
const std::span<const Entry> kEntries = entries;
"""
BYTES = {"size_t": 8, "unsigned long long": 8, "cuuint64_t": 8, "unsigned long": 8}


def scalar_bytes(kind: str) -> int:
    """Return the size of a number, or of the number behind a pointer."""
    plain = kind.replace("const ", "").removesuffix("*").strip()
    return BYTES.get(plain, 4)


def cast(argument: Argument, index: int) -> str:
    """Return the C expression of argument `index` from its word."""
    kind = argument.parameter.type
    if argument.form in "sf":
        return f"*({kind}*){'' if argument.form == 's' else '&'}a[{index}]"
    return f"({kind})a[{index}]"


def trampoline(function: Function, number: int) -> str:
    kinds = ", ".join(a.parameter.type for a in function.arguments)
    values = ", ".join(cast(a, i) for i, a in enumerate(function.arguments))
    return (
        f"int call_{number}(void* symbol, [[maybe_unused]] const uint64_t* a) {{\n"
        f"  return (int)((int (*)({kinds}))symbol)({values});\n}}\n"
    )


def forms_table(kind: str, names: Sequence[str]) -> str:
    rows = ", ".join(f'{{"{name}", (uint64_t){name}}}' for name in names)
    return f"const Form forms_{kind}[] = {{{rows}}};\n"


def parameters(function: Function, number: int) -> str:
    rows = ", ".join(
        f"{{{json.dumps(a.parameter.name)}, '{a.form}', {scalar_bytes(a.parameter.type)},"
        f" {json.dumps(a.value)}, {f'forms_{kind}' if kind else '{}'}}}"
        for a in function.arguments
        for kind in (forms.kind_of(function, a),)
    )
    return f"const Parameter parameters_{number}[] = {{{rows}}};\n" if rows else ""


def row(function: Function, number: int) -> str:
    listed = f"parameters_{number}" if function.arguments else "{}"
    nvml = int(function.library == "nvml")
    return f'  {{"{function.name}", {nvml}, call_{number}, {listed}}},\n'


def table() -> str:
    """Return functions.cc."""
    rows = list(enumerate(functions()))
    lines = [BANNER, HEAD, *starmap(forms_table, forms.declared().items())]
    lines += [trampoline(f, i) + parameters(f, i) for i, f in rows]
    lines += ["const Function functions[] = {\n", *(row(f, i) for i, f in rows), "};\n"]
    lines.append("const Entry entries[] = {\n")
    lines += [
        f'  {{"{e.base}", {e.version}, {int(e.per_thread)}, "{e.symbol}"}},\n'
        for e in entry_points()
    ]
    return "".join([*lines, "};\n", TAIL])


def build(folder: Path) -> Path:
    """Build the program in a folder and return its path."""
    (folder / "functions.cc").write_text(table())
    flags = ["-std=c++20", "-O1", "-w"]
    folders = [f"-I{folder}", f"-I{PROGRAMS}", f"-I{SOURCES}", f"-isystem{cuda_include()}"]
    sources = [folder / "functions.cc", *sorted(SOURCES.glob("*.cc"))]
    command: list[str | Path] = ["g++", *flags, *folders, "-o", folder / "calls", *sources]
    subprocess.run([*command, f"-L{BUILD / 'client'}", "-lcuda", "-ldl"], check=True)
    return folder / "calls"
