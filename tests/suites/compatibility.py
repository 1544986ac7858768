"""docs/compatibility.md: the recorded results of other projects' suites.

`python -m tests.suites.compatibility` writes the page again. A complete run of `./test --long
suite` records its counts in results/NAME.json and writes the page.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tomllib

from deploy.supervisor import ROOT
from tests.suites import suite_failures
from tests.suites.suite_definitions import SUITES
from tests.suites.suite_failures import BESIDE, REMOTED, Expected
from tests.suites.suite_run import Outcome

PAGE = ROOT / "docs" / "compatibility.md"
RESULTS = Path(__file__).with_name("results")
MODES = {"software GPU": ("direct", REMOTED, BESIDE), "NVIDIA GPU": ("direct", REMOTED)}
GPUS = tuple(MODES)
HEAD = """# Compatibility

Test suites of other projects, run directly on a GPU, through remoting, and through remoting beside
an allocation that keeps the GPU busy. A test counts as listed if it fails for a reason that
`tests/suites/failures` names. `./test --long suite NAME SOURCE` runs a suite from a checkout. It
fails on any other failure; a complete run writes this page.

| Suite | Version | GPU | Run | Passed | Failed, listed | Failed otherwise | Skipped by the suite |
|---|---|---|---|---|---|---|---|
"""
PROGRAMS = """
Programs of our own in Numba, cuda-python, Triton, Taichi, Dr.Jit, Halide and tinygrad run in every
test run, directly on the software GPU and through remoting (`tests/softgpu/test_programs.py`,
`tests/remoting/test_programs.py`).

## Listed failures
"""


def count(outcomes: Mapping[str, Outcome], listed: Sequence[Expected]) -> dict[str, int]:
    """Return the numbers of tests that passed, failed as listed, failed otherwise, were skipped."""
    failed = [test for test, o in outcomes.items() if o.is_failure]
    as_listed = sum(any(e.matches(test) for e in listed) for test in failed)
    states = Counter(o.state for o in outcomes.values())
    return {
        "passed": states["passed"],
        "listed": as_listed,
        "not listed": len(failed) - as_listed,
        "skipped": states["skipped"],
    }


def record(name: str, version: str, gpu: str, runs: Mapping[str, Mapping[str, Outcome]]) -> None:
    """Record complete runs, and write the page."""
    path, failures = RESULTS / f"{name}.json", suite_failures.FOLDER / f"{name}.toml"
    result = json.loads(path.read_text()) if path.exists() else {}
    result[gpu] = {"version": version} | {
        mode: count(found, suite_failures.read(failures, mode)) for mode, found in runs.items()
    }
    RESULTS.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(page())


def page() -> str:
    return HEAD + "".join(map(rows, SUITES)) + PROGRAMS + "".join(map(section, SUITES))


def rows(name: str) -> str:
    path = RESULTS / f"{name}.json"
    result = json.loads(path.read_text()) if path.exists() else {}
    return "".join(row(name, gpu, mode, result.get(gpu, {})) for gpu in GPUS for mode in MODES[gpu])


def row(name: str, gpu: str, mode: str, result: Mapping[str, Any]) -> str:
    counts = result.get(mode)
    if counts is None:
        return f"| {SUITES[name].title} | | {gpu} | {mode} | unproven | | | |\n"
    numbers = [counts[state] for state in ("passed", "listed", "not listed", "skipped")]
    cells = [SUITES[name].title, result["version"], gpu, mode, *map(str, numbers)]
    return "| " + " | ".join(cells) + " |\n"


def section(name: str) -> str:
    """Return the reasons of a suite's list with the number of entries, or nothing without them."""
    path = suite_failures.FOLDER / f"{name}.toml"
    groups = tomllib.loads(path.read_text()).get("failures", []) if path.exists() else []
    lines = [
        f"| {group['reason']} | {group.get('where', 'both')} | {len(group['tests'])} |\n"
        for group in groups
    ]
    head = f"\n### {SUITES[name].title}\n\n| Reason | Runs | Entries |\n|---|---|---|\n"
    return head + "".join(lines) if lines else ""


if __name__ == "__main__":
    PAGE.write_text(page())
