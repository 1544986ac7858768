"""Names of failpoints: tests choose from them, so each must have a place in the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import appliance
from appliance.runtime.failpoints import NAMES

SOURCES = Path(appliance.__file__).parent


def names_in(source: str) -> Iterator[str]:
    """Yield the names with which a module calls `failpoint`."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id == "failpoint":
            (argument,) = node.args
            assert isinstance(argument, ast.Constant), ast.unparse(argument)
            yield str(argument.value)


def test_each_failpoint_name_has_a_call_and_each_call_a_name() -> None:
    called = [
        name
        for path in SOURCES.rglob("*.py")
        for name in names_in(path.read_text(encoding="utf-8"))
    ]
    assert sorted(called) == sorted(NAMES)
