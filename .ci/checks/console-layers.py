#!/usr/bin/env python3
"""Check that the folders of frontend/src import lower layers only, so that no circle can form.

Files of a folder may import each other. Tests may import everything.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "frontend" / "src"
# From top to bottom; the first layer is the files of src itself.
LAYERS = [
    ".",
    "pages",
    "search",
    "notices",
    "fleet",
    "inventory",
    "allocations",
    "tasks",
    "admin",
    "account",
    "alarms",
    "charts",
    "tables",
    "actions",
    "ui",
    "model",
    "api",
    "text",
    "build",
]
IMPORT = re.compile(r'\b(?:from|import)\b\s*\(?\s*"(\.[^"]+)"')


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCES).parts[0] if path.parent != SOURCES else "."


def problems(source: Path) -> list[str]:
    """Return the imports of a file that go upwards."""
    own = LAYERS.index(layer_of(source))
    found = []
    for line, text in enumerate(source.read_text().splitlines(), 1):
        for name in IMPORT.findall(text):
            target = layer_of((source.parent / name).resolve())
            if LAYERS.index(target) < own:
                place = f"{source.relative_to(SOURCES.parents[1])}:{line}"
                found.append(f"{place}: {LAYERS[own]} is below {target}: do not import {name}")
    return found


def main() -> int:
    """Print the problems and return 1 if there are any."""
    folders = {p.name for p in SOURCES.iterdir() if p.is_dir()}
    found = [f"{name} has no place in LAYERS of {__file__}" for name in sorted(folders - {*LAYERS})]
    if not found:
        sources = [p for p in sorted(SOURCES.rglob("*.ts*")) if ".test." not in p.name]
        found = [problem for source in sources for problem in problems(source)]
    print("\n".join(found))
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
