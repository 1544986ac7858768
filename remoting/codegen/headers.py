"""Parser of cuda.h and nvml.h: exported symbols, prototypes and versions of entry points."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Parameter:
    type: str
    name: str


@dataclass(frozen=True)
class Prototype:
    symbol: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class EntryPoint:
    """One row of the cuGetProcAddress table: `symbol` implements `base` from CUDA `version`."""

    base: str
    version: int
    per_thread: bool
    symbol: str


def preprocess(header: Path, *defines: str) -> str:
    command = [
        "gcc",
        "-E",
        "-P",
        "-x",
        "c",
        *(f"-D{d}" for d in defines),
        f"-I{header.parent}",
        str(header),
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def split_parameters(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip() and p.strip() != "void"]


def parse_parameter(text: str, index: int) -> Parameter:
    pointer = re.match(r"(.*\(\s*\*\s*)(\w+)(\s*\).*)$", text)
    if pointer:
        return Parameter(f"{pointer[1]}{pointer[3]}", pointer[2])
    array = re.match(r"(.*?)(\w+)\s*\[\w*\]$", text)
    if array:
        return Parameter(f"{array[1].strip()} *", array[2])
    plain = re.match(r"(.*[\s*])(\w+)$", text)
    if plain and plain[2] not in {"int", "char", "long", "short", "unsigned"}:
        return Parameter(plain[1].strip(), plain[2])
    return Parameter(text, f"argument{index}")


def prototypes(text: str, returns: str, prefix: str) -> dict[str, Prototype]:
    """Return the functions that preprocessed text declares as `returns prefix…(…);`."""
    found = {}
    flat = re.sub(r"\s+", " ", text)
    for match in re.finditer(rf"\b{returns} +({prefix}\w+) *\(((?:[^()]|\([^()]*\))*)\) *;", flat):
        parameters = tuple(parse_parameter(p, i) for i, p in enumerate(split_parameters(match[2])))
        found[match[1]] = Prototype(match[1], parameters)
    return found


def cuda_prototypes(header: Path) -> dict[str, Prototype]:
    """Return all exported functions of cuda.h: current, of older versions, and per-thread."""
    found: dict[str, Prototype] = {}
    for defines in ((), ("__CUDA_API_VERSION_INTERNAL",), ("CUDA_API_PER_THREAD_DEFAULT_STREAM",)):
        found |= prototypes(preprocess(header, *defines), "CUresult", "cu")
    return found


def error_codes(text: str) -> dict[str, int]:
    """Return the names and values of CUresult in the text of cuda.h."""
    found = re.findall(r"^\s+(CUDA_SUCCESS|CUDA_ERROR_\w+)\s*=\s*(\d+)", text, re.MULTILINE)
    return {name: int(value) for name, value in found}


def nvml_prototypes(header: Path) -> dict[str, Prototype]:
    """Return the exported functions of nvml.h, without parameters."""
    text = header.read_text()
    found = {}
    for match in re.finditer(r"^\w[\w ]*\*?\s*DECLDIR\s+(nvml\w+)\s*\(", text, re.M):
        found[match[1]] = Prototype(match[1], ())
    for match in re.finditer(r"DECLDIR\s+(nvml\w+)\s*\(", text):
        found.setdefault(match[1], Prototype(match[1], ()))
    return found


def nvml_functions(header: Path) -> dict[str, Prototype]:
    """Return the exported functions of nvml.h that return nvmlReturn_t, with parameters."""
    found: dict[str, Prototype] = {}
    for defines in ((), ("NVML_NO_UNVERSIONED_FUNC_DEFS",)):
        found |= prototypes(preprocess(header, *defines), "nvmlReturn_t", "nvml")
    return found


GRAPHICS_HEADERS = ("cudaGL.h", "cudaEGL.h", "cudaVDPAU.h")


def graphics_functions(include: Path) -> set[str]:
    """Return the exported functions of the graphics headers.

    The headers are read as text, because they include headers of graphics libraries. The macros
    rename functions to the symbols of their second version and per-thread form.
    """
    text = "".join((include / name).read_text() for name in GRAPHICS_HEADERS)
    names = set(re.findall(r"CUresult +CUDAAPI +(cu\w+) *\(", text))
    for base, form, symbol in re.findall(
        r"#define +(cu\w+) +(?:__CUDA_API_(PTDS|PTSZ)\()?(cu\w+)", text
    ):
        names |= {base, symbol, f"{symbol}_{form.lower()}" if form else symbol}
    return {name for name in names if not name.startswith("cuWGL")}


def base_name(symbol: str) -> str:
    return re.sub(r"(_ptsz|_ptds)$", "", symbol)


def entry_points(typedefs: Path, exported: set[str]) -> list[EntryPoint]:
    """Return the rows of the cuGetProcAddress table.

    The k-th version of a name in cudaTypedefs.h is the k-th exported symbol of name, name_v2,
    name_v3, …
    """
    versions: dict[str, set[int]] = {}
    for match in re.finditer(r"\bPFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", typedefs.read_text()):
        versions.setdefault(match[1], set()).add(int(match[2]))
    rows = []
    for base, known in sorted(versions.items()):
        symbols = [s for s in (base, *(f"{base}_v{k}" for k in range(2, 9))) if s in exported]
        for version, symbol in zip(sorted(known), symbols, strict=False):
            rows.append(EntryPoint(base, version, False, symbol))
            rows += [
                EntryPoint(base, version, True, symbol + suffix)
                for suffix in ("_ptsz", "_ptds")
                if symbol + suffix in exported
            ]
    return rows
