#!/usr/bin/env python3
"""Count the files and registries of the project, and check that no count exceeds its limit.

When a count falls, lower its limit, too. Circles and long functions have checks of their own, which
the last lines name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CODE = re.compile(r"\.(py|cc|h|c|cu|sh|ts|tsx|css)$")
DOCUMENT = re.compile(r"^docs/|\.md$")
TEST = re.compile(r"^(tests|\.ci)/|\.test\.tsx?$")
GENERATED = re.compile(r"/migrations/|^busbar_client/(types|client|fields)\.(py|json)$")
REGISTRY = re.compile(r"^ *def (register(?:_\w+)?)\(", re.MULTILINE)
OTHER_REGISTRIES = ("register_guard",)  # of sections of the configuration, not of objects
TO_LAUNCHER = re.compile(r"(appliance|nodes|remoting/(control|launcher))/")
TO_BROWSER = re.compile(r"(appliance|nodes|remoting/(control|launcher)|frontend)/")
"""Folders through which an allocation passes to the launcher, and a report of a node to a browser.
A file that passes a message on without naming a field of it is not counted."""


@dataclass(frozen=True)
class Count:
    what: str
    found: list[str]
    limit: int

    def is_kept(self) -> bool:
        return 0 < len(self.found) <= self.limit


def registries(files: list[str]) -> Iterator[str]:
    """Yield the functions with which the appliance learns the kinds of objects and their parts."""
    for file in files:
        if file.startswith("appliance/") and file.endswith(".py"):
            names = REGISTRY.findall(Path(file).read_text())
            yield from (f"{file}: {name}" for name in names if name not in OTHER_REGISTRIES)


def naming(field: str, files: Iterable[str]) -> list[str]:
    """Return the files that name the field, without tests, documents and generated files."""
    skipped = (DOCUMENT, TEST, GENERATED)
    sources = [file for file in files if not any(pattern.search(file) for pattern in skipped)]
    return [file for file in sources if field in Path(file).read_text(errors="replace")]


def lines(files: list[str]) -> int:
    return sum(Path(file).read_bytes().count(b"\n") for file in files)


def main() -> int:
    """Print the counts and return 1 if one is zero or exceeds its limit."""
    listed = subprocess.run([".ci/files"], capture_output=True, text=True, check=True)
    files = listed.stdout.splitlines()
    counts = [
        Count("files at the top", [file for file in files if "/" not in file], 19),
        Count("registries of kinds of objects", list(registries(files)), 6),
        Count("files that name max_idle_seconds of a pool", naming("max_idle_seconds", files), 6),
        Count(
            "files that name compute_mode, from REST to the launcher",
            naming("compute_mode", filter(TO_LAUNCHER.match, files)),
            22,
        ),
        Count(
            "files that name refused_calls, from the launcher to a browser",
            naming("refused_calls", filter(TO_BROWSER.match, files)),
            20,
        ),
    ]
    for count in counts:
        print(f"{count.what}: {len(count.found)} (limit {count.limit})")
        if not count.is_kept():
            print("\n".join(f"  {name}" for name in count.found))
    code = [file for file in files if CODE.search(file) and not GENERATED.search(file)]
    print(f"lines of code: {lines(code)}, in tests {lines(list(filter(TEST.search, code)))}")
    print(f"lines of documents: {lines([file for file in files if file.endswith('.md')])}")
    print("circles among folders: 0, see console-layers and cpp-structure")
    print("functions over 40 lines: 0, see file-length, frontend and clang-tidy")
    return 0 if all(count.is_kept() for count in counts) else 1


if __name__ == "__main__":
    sys.exit(main())
