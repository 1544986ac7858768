"""Which functions the programs of the tests call, and in which test they run: the "tested" rows of the coverage page."""

from __future__ import annotations

import re
from pathlib import Path

CALL = re.compile(r"\b(cu[A-Z]\w+)\s*\(")
PYTHON_CALL = re.compile(r"\bcu\.(cu[A-Z]\w+)\(")
RENAMED = re.compile(
    r"^\s*#define\s+(cu[A-Z]\w+)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)\)?\s*$", re.MULTILINE
)


def current_names(header: Path) -> dict[str, str]:
    """What cuda.h turns a name into: `cuMemAlloc` into `cuMemAlloc_v2`."""
    return dict(RENAMED.findall(header.read_text()))


def tested(header: Path, tests: Path) -> dict[str, str]:
    """Function to test id. `tests` is the folder of the tests; both runs of a program, directly and remoted, must print the same."""
    names, found = current_names(header), dict[str, str]()
    programs = [
        (p, CALL, f"remoting/test_conformance.py[{p.stem}]")
        for p in sorted((tests / "remoting" / "programs").glob("*.c"))
    ]
    text = (tests / "softgpu" / "cuda_programs.py").read_text()
    for path, pattern, test in programs:
        for name in pattern.findall(path.read_text()):
            found.setdefault(names.get(name, name), test)
    listed = re.findall(
        r"\w+", text[text.index("PROGRAMS = {") :].partition("in (")[2].partition(")")[0]
    )
    for part in re.split(r"^def ", text, flags=re.MULTILINE)[1:]:
        name = part.partition("(")[0]
        program = (
            name if name in listed else listed[0]
        )  # what all of them use runs in the first, too
        for name in PYTHON_CALL.findall(part):
            found.setdefault(names.get(name, name), f"remoting/test_programs.py[{program}]")
    return found
