#!/usr/bin/env python3
"""Check that sources have at most 500 lines, and functions in Python at most 40.

A function begins with `def`: decorators do not count. Generated files and migrations are exempt.
clang-tidy counts the lines of C++ functions.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FILE_LINES, FUNCTION_LINES = 500, 40
SOURCES = ("*.py", "*.cc", "*.h", "*.c", "*.cu", "*.sh", "*.ts", "*.tsx", "*.css")
EXEMPT = re.compile(r"_pb2|/migrations/|^busbar_client/(types|client)\.py$")


def findings(file: str) -> Iterator[str]:
    text = Path(file).read_text()
    if (lines := text.count("\n")) > FILE_LINES:
        yield f"{file}: {lines} lines: split the file by concept."
    for node in ast.walk(ast.parse(text)) if file.endswith(".py") else ():
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not node.end_lineno:
            continue
        if (lines := node.end_lineno - node.lineno + 1) > FUNCTION_LINES:
            yield f"{file}:{node.lineno}: {node.name} has {lines} lines: move a step of it out."


def main() -> int:
    listed = subprocess.run([".ci/files", *SOURCES], capture_output=True, text=True, check=True)
    files = [file for file in listed.stdout.splitlines() if not EXEMPT.search(file)]
    found = [finding for file in files for finding in findings(file)]
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
