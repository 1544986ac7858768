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
IMPORT = re.compile(
    r"""\b(?:from|import|glob)\b\s*\(?\s*(?:/\*.*?\*/\s*|//[^\n]*\n\s*)*["'`](\.[^"'`]+)""",
    re.DOTALL,
)
TEST = re.compile(r"\.test\.tsx?$")


def layer_of(path: Path) -> str:
    """Return the folder of a file or folder. Raises ValueError outside of the sources."""
    first = path.relative_to(SOURCES).parts[:1]
    return first[0] if first and (SOURCES / first[0]).is_dir() else "."


def problems(source: Path) -> list[str]:
    """Return the imports of a file that go upwards."""
    own, text = LAYERS.index(layer_of(source)), source.read_text()
    found = []
    for match in IMPORT.finditer(text):
        target = layer_of((source.parent / match[1]).resolve())
        if LAYERS.index(target) < own:
            line = text.count("\n", 0, match.start()) + 1
            place = f"{source.relative_to(SOURCES.parents[1])}:{line}"
            found.append(f"{place}: {LAYERS[own]} is below {target}: do not import {match[1]}")
    return found


def main() -> int:
    """Print the problems and return 1 if there are any."""
    folders = {p.name for p in SOURCES.iterdir() if p.is_dir()}
    wrong = sorted(folders ^ {*LAYERS[1:]})
    found = [f"{name} is in LAYERS of {__file__} or a folder, not both" for name in wrong]
    if not found:
        sources = [p for p in sorted(SOURCES.rglob("*.*ts*")) if not TEST.search(p.name)]
        found = [problem for source in sources for problem in problems(source)]
    print("\n".join(found))
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
