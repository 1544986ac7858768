"""Functions that the tests execute through remoting, as a run recorded them.

`tests/remoting/calls/record.py` writes the record. Tests fail if it claims more than they execute.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RECORD = Path("tests") / "remoting" / "calls" / "record.txt"


@dataclass(frozen=True)
class Executed:
    """The programs that call a function with success and with an error; empty if none does."""

    success: str = ""
    error: str = ""


def read(path: Path) -> dict[str, Executed]:
    """Return what was executed by function. A line is `FUNCTION success=PROGRAM error=PROGRAM`."""
    found = {}
    for line in path.read_text().splitlines():
        name, *words = line.split()
        found[name] = Executed(**dict(word.split("=") for word in words))
    return found


def test_of(program: str) -> str:
    """Return the id of the test that runs a program."""
    if program == "calls":
        return "test_generated_calls.py"
    return f"test_conformance.py[{program}]" if program else "–"


def nvml_functions(sources: Path) -> set[str]:
    """Return the NVML functions that the client library implements."""
    text = "".join(p.read_text() for p in sorted(sources.glob("*.cc")))
    return set(re.findall(r"\b(?:API \w+\s*\*?\s*|EXPORT_\w+\()(nvml\w+)", text))
