#!/usr/bin/env python3
"""Count the files and registries of the project, and check that no count exceeds its limit.

When a count falls, lower its limit, too. Circles and long functions have checks of their own, which
the last lines name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CODE = re.compile(r"\.(py|cc|h|c|cu|sh|ts|tsx|css)$")
DOCUMENT = re.compile(r"^docs/|\.md$")
TEST = re.compile(r"^(tests|\.ci)/|\.test\.tsx?$")
GENERATED = re.compile(r"/migrations/|_pb2\.pyi?$|^busbar_client/(types|client|fields)\.(py|json)$")
REGISTRY = re.compile(r"^ *def (register(?:_\w+)?)\(", re.MULTILINE)
OTHER_REGISTRIES = ("register_guard",)  # of sections of the configuration, not of objects
VALUE_PATHS = Path("docs/development/value-paths.md")
"""Lists the files of the path of each value in tables. `references` checks that they exist."""
SIDES = ("appliance/", "nodes/", "remoting/launcher/")
"""Folders whose files must be in the section of a value if they name its field."""
PATH_FILE = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


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


def naming(field: str, files: list[str]) -> list[str]:
    """Return the files that name the field, without tests, documents and generated files."""
    skipped = (DOCUMENT, TEST, GENERATED)
    sources = [file for file in files if not any(pattern.search(file) for pattern in skipped)]
    return [file for file in sources if field in Path(file).read_text(errors="replace")]


def value_path(title: str) -> str:
    """Return the section of a value with this title, or one that begins with it."""
    _, _, section = VALUE_PATHS.read_text().partition(f"\n## {title}")
    return section.partition("\n## ")[0]


def missing(section: str, field: str, files: list[str]) -> list[str]:
    """Return the files that name the field of a section and are not named there."""
    found = [file for file in naming(field, files) if file.startswith(SIDES)]
    return [file for file in found if f"`{source_of(file, files)}`" not in section]


def source_of(file: str, files: list[str]) -> str:
    """Return the C++ source of a header; any other file, or a header without a source, as it is."""
    source = re.sub(r"\.h$", ".cc", file)
    return source if source in files else file


def lines(files: list[str]) -> int:
    return sum(Path(file).read_bytes().count(b"\n") for file in files)


def main() -> int:
    """Print the counts; return 1 if one is zero or exceeds its limit, or a path lacks a file."""
    listed = subprocess.run([".ci/files"], capture_output=True, text=True, check=True)
    files = listed.stdout.splitlines()
    percent, report = value_path("The percent of"), value_path("A report to")
    counts = [
        Count("files at the top", [file for file in files if "/" not in file], 19),
        Count("registries of kinds of objects", list(registries(files)), 6),
        Count("files that name max_idle_seconds of a pool", naming("max_idle_seconds", files), 6),
        Count("files on the path of a percent to the launcher", PATH_FILE.findall(percent), 43),
        Count("files on the path of a report to a browser", PATH_FILE.findall(report), 42),
    ]
    for count in counts:
        print(f"{count.what}: {len(count.found)} (limit {count.limit})")
        if not count.is_kept():
            print("\n".join(f"  {name}" for name in count.found))
    unlisted = missing(percent, "compute_percent", files)
    unlisted += missing(report, "refused_calls", files)
    for file in unlisted:
        print(f"{file}: is not named in {VALUE_PATHS}")
    code = [file for file in files if CODE.search(file) and not GENERATED.search(file)]
    print(f"lines of code: {lines(code)}, in tests {lines(list(filter(TEST.search, code)))}")
    print(f"lines of documents: {lines([file for file in files if file.endswith('.md')])}")
    print("circles among folders: 0, see console-layers and cpp-structure")
    print("functions over 40 lines: 0, see file-length, frontend and clang-tidy")
    return 0 if all(count.is_kept() for count in counts) and not unlisted else 1


if __name__ == "__main__":
    sys.exit(main())
