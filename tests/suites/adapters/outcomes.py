"""Pytest plugin that records each test's outcome as a line of JSON in $SUITE_OUTCOMES.

A line is written before a test starts, so the file names the test in which a process crashed. A
process that runs after a crash skips the tests that the file already names. The plugin runs in the
suite's own environment and needs pytest only.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

OUTCOMES = Path(os.environ["SUITE_OUTCOMES"])
REASON_CHARACTERS = 800


def write(**line: Any) -> None:
    with OUTCOMES.open("a") as out:
        out.write(json.dumps(line) + "\n")


def finished_tests() -> set[str]:
    if not OUTCOMES.exists():
        return set()
    return {json.loads(line)["test"] for line in OUTCOMES.read_text().splitlines()}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    names = set(os.environ.get("SUITE_TESTS", "").split("\n")) - {""}
    finished = finished_tests()
    kept = [
        item
        for item in items
        if item.nodeid not in finished
        and (not names or item.nodeid in names or item.nodeid.split("[")[0] in names)
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_runtest_logstart(nodeid: str) -> None:
    write(test=nodeid, outcome="started", reason="")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        write(test=report.nodeid, outcome=outcome(report), reason=reason(report))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.outcome != "passed" and report.nodeid:
        write(test=report.nodeid, outcome=outcome(report), reason=reason(report))


def outcome(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return passed, skipped or failed; a test that fails as its suite expects has passed."""
    expected = getattr(report, "wasxfail", None) is not None
    return "passed" if expected and report.outcome == "skipped" else report.outcome


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash else report.longrepr or "")[:REASON_CHARACTERS]
