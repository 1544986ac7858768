#!/usr/bin/env python3
"""Check that documents name files and symbols that exist.

A reference is a repository path in backticks, optionally followed by a colon and a symbol:
`remoting/server/executor.cc:Executor`. The path must exist and the symbol must occur in the file.
Folders end in a slash or stand without a suffix. Benchmarks and the changelog describe the past
and are not checked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP = "appliance|nodes|remoting|frontend|ansible|deploy|tests|docs|\\.ci"
REFERENCE = re.compile(rf"`((?:{TOP})/[\w./*-]*|ARCHITECTURE\.md|SECURITY\.md)(?::(\w[\w.:]*))?`")
BUILT = ("frontend/dist", "frontend/node_modules")
PAST = ("CHANGELOG.md", "docs/benchmarks.md")


def documents() -> Iterator[Path]:
    """Yield the documents to check."""
    yield from (p for p in ROOT.glob("*.md") if p.name not in PAST)
    yield ROOT / "remoting" / "PROTOCOL.md"
    for path in (ROOT / "docs").rglob("*.md"):
        if str(path.relative_to(ROOT)) not in PAST:
            yield path


def problem(path: str, symbol: str | None) -> str:
    """Return why a reference is wrong, or an empty string."""
    if path.startswith(BUILT):
        return ""
    if "*" in path:
        return "" if any(ROOT.glob(path)) else "matches no file"
    found = ROOT / path
    if not found.exists():
        return "does not exist"
    if symbol is None:
        return ""
    texts = [found] if found.is_file() else [p for p in found.rglob("*") if p.is_file()]
    name = re.split(r"[.:]+", symbol)[-1]
    pattern = re.compile(rf"\b{re.escape(name)}\b")
    if any(pattern.search(p.read_text(errors="replace")) for p in texts):
        return ""
    return f"has no symbol {symbol}"


def main() -> int:
    """Print wrong references and return their number as exit status, 1 at most."""
    wrong = 0
    for document in documents():
        for number, line in enumerate(document.read_text().splitlines(), 1):
            for path, symbol in REFERENCE.findall(line):
                if reason := problem(path, symbol or None):
                    wrong += 1
                    print(f"{document.relative_to(ROOT)}:{number}: {path} {reason}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
