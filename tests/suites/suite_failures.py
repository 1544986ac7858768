"""The lists of expected failures: failures/NAME.toml.

Each `[[failures]]` has a `reason` and `tests`; in a name, `*` stands for any characters. `where`
limits it to "direct" or "remoted". Beside a neighbour, what fails is the same as remoted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tomllib

from tests.suites.suite_run import Outcome

FOLDER = Path(__file__).with_name("failures")
REMOTED, BESIDE = "remoted", "beside"


@dataclass(frozen=True)
class Expected:
    """A pattern of test names that fail for a reason."""

    pattern: str
    reason: str

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(".*".join(re.escape(part) for part in self.pattern.split("*")))

    def matches(self, test: str) -> bool:
        return self._expression.fullmatch(test) is not None


def read(path: Path, mode: str) -> list[Expected]:
    """Return the expected failures of a list that hold for a mode."""
    groups = tomllib.loads(path.read_text()).get("failures", [])
    where = REMOTED if mode == BESIDE else mode
    return [
        Expected(pattern, group["reason"])
        for group in groups
        if group.get("where", where) == where
        for pattern in group["tests"]
    ]


def problems(outcomes: Mapping[str, Outcome], listed: Sequence[Expected]) -> list[str]:
    """Return a line for each test that differs from the list: a failure that is not listed, a
    crash or time-out, and a listed test that passes.
    """
    return sorted(line for test, o in outcomes.items() for line in problem(test, o, listed))


def unused(outcomes: Mapping[str, Outcome], listed: Sequence[Expected]) -> list[str]:
    """Return a line for each entry of the list that no test of a complete run matches."""
    return [
        f"listed, but no test has this name: {e.pattern}"
        for e in listed
        if not any(e.matches(test) for test in outcomes)
    ]


def problem(test: str, outcome: Outcome, listed: Sequence[Expected]) -> list[str]:
    is_listed = any(e.matches(test) for e in listed)
    reason = (outcome.reason.splitlines() or [""])[0]
    if outcome.state in ("crashed", "timed out"):
        return [f"{outcome.state}: {test}: {reason}"]
    if outcome.is_failure and not is_listed:
        return [f"failed and is not listed: {test}: {reason}"]
    if outcome.state == "passed" and is_listed:
        return [f"listed, but passed: {test}"]
    return []
