"""Which CUDA functions the test programs call, for the rows "tested" of the coverage page."""

from __future__ import annotations

import re
from pathlib import Path

CALL = re.compile(r"\b(cu[A-Z]\w+)\s*\(")
PYTHON_CALL = re.compile(r"\bcu\.(cu[A-Z]\w+)\(")
RENAMED = re.compile(
    r"^\s*#define\s+(cu[A-Z]\w+)\s+(?:__CUDA_API_PT[DS][SZ]\()?(cu\w+)\)?\s*$", re.MULTILINE
)


def current_names(header: Path) -> dict[str, str]:
    """Return the names that cuda.h replaces, such as `cuMemAlloc` by `cuMemAlloc_v2`."""
    return dict(RENAMED.findall(header.read_text()))


def tested_functions(header: Path, tests: Path) -> dict[str, str]:
    """Return the id of a test that calls the function, by function.

    `tests` is the folder of the tests. The C programs run directly and remoted with equal output.
    """
    names, found = current_names(header), dict[str, str]()
    for path in sorted((tests / "remoting" / "programs").glob("*.c")):
        if path.stem.endswith("_client"):
            continue  # a hostile client is no conformance program
        for name in CALL.findall(path.read_text()):
            test = f"remoting/test_conformance.py[{path.stem}]"
            found.setdefault(names.get(name, name), test)
    for program, text in python_programs(tests / "softgpu"):
        for name in PYTHON_CALL.findall(text):
            test = f"remoting/test_programs.py[{program}]"
            found.setdefault(names.get(name, name), test)
    return found


def python_programs(folder: Path) -> list[tuple[str, str]]:
    """Return name and source of each Python program.

    Functions that several programs share count as part of the first program.
    """
    text = (folder / "cuda_programs.py").read_text()
    programs = text[text.index("PROGRAMS = {") :].partition("in (")[2].partition(")")[0]
    listed = re.findall(r"\w+", programs)
    parts = [(listed[0], (folder / "cuda_python.py").read_text())]
    for part in re.split(r"^def ", text, flags=re.MULTILINE)[1:]:
        name = part.partition("(")[0]
        parts.append((name if name in listed else listed[0], part))
    return parts
