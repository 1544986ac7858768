#!/usr/bin/env python3
"""Check the structure of the C++ sources under remoting/, or under the given folder.

The folders have layers, and include lower ones only. A component is a header together with the
source file of the same name. The check fails if a folder includes one that is not below it, if
components include each other in a circle, or if two files define the same macro. A macro that its
file also undefines is local and may have any name.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "remoting"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
UNDEFINE = re.compile(r"^\s*#\s*undef\s+(\w+)", re.MULTILINE)
# From top to bottom. Folders of one layer do not include each other; "." is remoting/ itself.
LAYERS = [
    "unit_tests",
    "bench | bench/gpu | bench/partitions | fuzz | softgpu/fuzz",
    "client/api | nvml | server/driver_only",
    "client | launcher | server | softgpu/api | softgpu/bounds | softgpu/nvml | spawner",
    "softgpu/driver",
    "softgpu/jit",
    "softgpu/emit",
    "softgpu/device | softgpu/device/runtime | softgpu/ptx",
    "control",
    "transport",
    "images | wire",
    ".",
]
LAYER_OF = {folder: i for i, layer in enumerate(LAYERS) for folder in layer.split(" | ")}
# Separate programs.
MACROS_UNCHECKED = ("bench/", "fuzz/")
SUFFIXES = {".h", ".cc", ".c"}

Graph = dict[str, set[str]]


def sources(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES)


def included(source: Path, name: str, root: Path) -> Path | None:
    """Return the included file, searched as the compiler does, or None if it is generated."""
    return next((p for p in (source.parent / name, root / name) if p.is_file()), None)


def inclusions(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each source with each file that it includes, relative to the root."""
    for source in sources(root):
        for name in INCLUDE.findall(source.read_text()):
            target = included(source, name, root)
            if target and target.resolve().is_relative_to(root):
                yield source.relative_to(root), target.resolve().relative_to(root)


def wrong_layers(root: Path) -> list[str]:
    """Return the inclusions of folders that are not below, and the folders without a layer."""
    folders = {str(source.relative_to(root).parent) for source in sources(root)}
    if unknown := sorted(folders - LAYER_OF.keys()):
        return [f"{name}: name its layer in LAYERS of {Path(__file__).name}" for name in unknown]
    return [
        f"{source} includes {target}: {source.parent} is not above {target.parent}"
        for source, target in inclusions(root)
        if source.parent != target.parent
        and LAYER_OF[str(source.parent)] >= LAYER_OF[str(target.parent)]
    ]


def include_graph(root: Path) -> Graph:
    graph: Graph = defaultdict(set)
    for source, target in inclusions(root):
        own, other = (path.with_suffix("").as_posix() for path in (source, target))
        if other != own:
            graph[own].add(other)
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components with more than one member (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            members = stack[at:]
            del stack[at:]
            if len(members) > 1:
                found.append(sorted(members))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def repeated_macros(root: Path) -> dict[str, list[str]]:
    files: dict[str, set[str]] = defaultdict(set)
    for source in sources(root):
        if source.relative_to(root).as_posix().startswith(MACROS_UNCHECKED):
            continue
        text = source.read_text()
        for name in set(DEFINE.findall(text)) - set(UNDEFINE.findall(text)):
            files[name].add(source.relative_to(root).as_posix())
    return {name: sorted(where) for name, where in files.items() if len(where) > 1}


def main() -> int:
    """Print the problems and return 1 if there are any."""
    root = Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT
    problems = wrong_layers(root)
    problems += [f"include circle: {', '.join(c)}" for c in circles(include_graph(root))]
    problems += [
        f"macro {name} is defined in {', '.join(where)}"
        for name, where in sorted(repeated_macros(root).items())
    ]
    print("\n".join(problems))
    return min(len(problems), 1)


if __name__ == "__main__":
    sys.exit(main())
