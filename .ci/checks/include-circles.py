#!/usr/bin/env python3
"""Check the structure of the C++ sources under remoting/.

A component is a header together with the source file of the same name. The check fails if
components include each other in a circle, or if two files define the same macro. A macro that its
file also undefines is local and may have any name.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "remoting"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
UNDEFINE = re.compile(r"^\s*#\s*undef\s+(\w+)", re.MULTILINE)
# Separate programs.
MACROS_UNCHECKED = ("bench/", "fuzz/")
SUFFIXES = {".h", ".cc", ".c"}

Graph = dict[str, set[str]]


def sources(root: Path) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES)


def component(path: Path, root: Path) -> str:
    return path.relative_to(root).with_suffix("").as_posix()


def included(source: Path, name: str, root: Path) -> Path | None:
    """Return the included file, searched as the compiler does, or None if it is generated."""
    return next((p for p in (source.parent / name, root / name) if p.is_file()), None)


def include_graph(root: Path) -> Graph:
    graph: Graph = defaultdict(set)
    for source in sources(root):
        own = component(source, root)
        for name in INCLUDE.findall(source.read_text()):
            target = included(source, name, root)
            if target and target.resolve().is_relative_to(root):
                other = component(target.resolve(), root)
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
    problems = [f"include circle: {', '.join(c)}" for c in circles(include_graph(ROOT))]
    problems += [
        f"macro {name} is defined in {', '.join(where)}"
        for name, where in sorted(repeated_macros(ROOT).items())
    ]
    print("\n".join(problems))
    return min(len(problems), 1)


if __name__ == "__main__":
    sys.exit(main())
