"""The coverage page: every function of the driver API and of NVML, with tests that execute it."""

from __future__ import annotations

from pathlib import Path

from remoting.codegen import headers, spec, tested

HEAD = """\
# Coverage of the CUDA driver API and of NVML

This page lists every function of `cuda.h`, of the graphics headers and of `nvml.h`. It is
generated from `remoting/spec` and from the record of a test run
(`tests/remoting/calls/record.txt`). Tests fail if the page is stale, or if the record claims a call
that the named test does not execute through remoting.

- *Tested* functions succeed in a test. The columns name a test in `tests/remoting` with a call that
  succeeds, and one with a call that returns an error.
- *Errors only*: every call of the tests returns an error, because the software GPU lacks the
  function or its objects.
- Functions that are *not supported* return `CUDA_ERROR_NOT_SUPPORTED` or
  `NVML_ERROR_NOT_SUPPORTED`. The first call is reported by name to the user and the node.

"""
TABLE = "| function | state | success | error | class or reason |\n|---|---|---|---|---|\n"


def state_of(executed: tested.Executed | None) -> str:
    if not executed:
        return "implemented"
    return "tested" if executed.success else "errors only"


def row(name: str, executed: tested.Executed | None, detail: str) -> str:
    found = executed or tested.Executed()
    tests = f"{tested.test_of(found.success)} | {tested.test_of(found.error)}"
    return f"| `{name}` | {state_of(executed)} | {tests} | {detail} |\n"


def driver_rows(
    calls: dict[str, spec.Call], refused: dict[str, str], record: dict[str, tested.Executed]
) -> list[str]:
    rows = [
        row(c.name, record.get(c.name), f"{c.kind}, by {c.alias}" if c.alias else c.kind)
        for c in calls.values()
    ]
    rows += [f"| `{name}` | not supported | – | – | {why} |\n" for name, why in refused.items()]
    return sorted(rows)


def nvml_rows(root: Path, include: Path, record: dict[str, tested.Executed]) -> list[str]:
    implemented = tested.nvml_functions(root / "remoting" / "nvml")
    rows = []
    for name in sorted(headers.nvml_functions(include / "nvml.h")):
        if name in implemented:
            rows.append(row(name, record.get(name), "from the node's samples"))
        else:
            rows.append(f"| `{name}` | not supported | – | – | the node takes no such sample |\n")
    return rows


def page(root: Path, include: Path, calls: dict[str, spec.Call], refused: dict[str, str]) -> str:
    """Return the text of docs/coverage.md."""
    record = tested.read(root / tested.RECORD)
    parts = [HEAD, "## Driver API\n\n", TABLE, *driver_rows(calls, refused, record)]
    parts += ["\n## NVML\n\n", TABLE, *nvml_rows(root, include, record)]
    return "".join(parts)
