"""Selection and order of the tests; environment.py sets their environment."""

from __future__ import annotations

import gc
import json
import logging
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.file_scheduling import FileScheduling

logging.getLogger("httpx").setLevel(logging.WARNING)

ORDER = ("system", "fleet", "ansible", "remoting", "softgpu", "appliance", "console")
"""Folders with long files come first, so that the workers end at the same time.

The console is last: Playwright keeps an event loop in the process until the end, and Django refuses
to work inside one.
"""


class Results:
    """Prints the name of each failed test at once, and writes the steps of all for .ci/tests."""

    def __init__(self, terminal: pytest.TerminalReporter, file: str | None) -> None:
        self.terminal = terminal
        self.file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.terminal.ensure_newline()
            self.terminal.write_line(f"failed: {report.nodeid} ({report.when})")
        if self.file:
            self.write(report, self.file)

    def write(self, report: pytest.TestReport, file: str) -> None:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = crash.message if crash else str(report.longrepr or "")[-300:]
        result = {
            "test": report.nodeid,
            "outcome": report.outcome,
            "seconds": round(report.duration, 2),
            "reason": reason.partition("\n")[0],
        }
        with Path(file).open("a") as results:
            results.write(json.dumps(result) + "\n")


def pytest_sessionstart(session: pytest.Session) -> None:
    plugins = session.config.pluginmanager
    terminal = plugins.get_plugin("terminalreporter")
    if terminal and "PYTEST_XDIST_WORKER" not in os.environ:
        plugins.register(Results(terminal, os.environ.get("BUSBAR_TEST_RESULTS")))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling:
    return FileScheduling(config, log)


def position(item: pytest.Item) -> int:
    """Return the place of an item's folder in ORDER; other folders come before the console."""
    folders = [folder for folder in ORDER if folder in item.path.parts]
    return ORDER.index(folders[0]) if folders else len(ORDER) - 2


def name_by_operation(item: pytest.Item) -> None:
    """Give an operation of a Schemathesis test a node id: its items have that of the function."""
    function, _, operation = item.name.partition("[")
    if operation and item.nodeid.endswith(f"::{function}"):
        item._id = replace(item._id, params=operation.removesuffix("]"))


def leave_out_long(items: list[pytest.Item], config: pytest.Config) -> None:
    """Deselect the tests marked `long`, unless `./test --long complete` selects them."""
    if os.environ.get("BUSBAR_TEST_LONG"):
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Sort the tests. Refuse node ids of several tests: pytest-xdist would run one of them."""
    leave_out_long(items, config)
    for item in items:
        name_by_operation(item)
    repeated = [n for n, count in Counter(i.nodeid for i in items).items() if count > 1]
    if repeated:
        raise pytest.UsageError(f"Several tests have the node id {repeated[0]}.")
    items.sort(key=position)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lasts until the end: modules and thousands of items."""
    gc.collect()
    gc.freeze()
