"""`.ci/tests`: which failures of tests the gate runs again, and what it then reports."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = """#!/usr/bin/env python3
# In place of ./test: takes status and results of this run from the plan.
import json, os, pathlib, sys
plan = json.loads(pathlib.Path("plan").read_text())
pathlib.Path("plan").write_text(json.dumps(plan[1:]))
with open("calls", "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
status, results = plan[0]
with open(os.environ["BUSBAR_TEST_RESULTS"], "w") as file:
    for test, outcome in results.items():
        result = {"test": test, "outcome": outcome, "seconds": 0, "reason": "boom"}
        file.write(json.dumps(result) + "\\n")
sys.exit(status)
"""
Run = tuple[int, dict[str, str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / ".ci" / "tests", tmp_path / ".ci")
    shutil.copy(ROOT / "tests" / "quarantine.py", tmp_path / "tests")
    (tmp_path / "tests" / "quarantine.txt").write_text("# none\n")
    (tmp_path / "test").write_text(RUN)
    (tmp_path / "test").chmod(0o755)
    return tmp_path


def gate(checkout: Path, *runs: Run) -> tuple[int, str, list[list[str]]]:
    """Run the part on planned runs. Return status, output and the arguments of each run."""
    (checkout / "plan").write_text(json.dumps(runs))
    command = [sys.executable, ".ci/tests", "some", "./test", "--all"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    calls = [json.loads(line) for line in (checkout / "calls").read_text().splitlines()]
    return done.returncode, done.stdout + done.stderr, calls


def total(checkout: Path) -> str:
    command = [sys.executable, ".ci/tests", "--total"]
    return subprocess.check_output(command, cwd=checkout, text=True).strip()


def test_passing_tests_run_once(checkout: Path) -> None:
    status, _, calls = gate(checkout, (0, {"a.py::one": "passed", "a.py::two": "skipped"}))
    assert (status, calls) == (0, [["--all"]])
    assert total(checkout) == "1 passed, 0 failed, 1 skipped"


def test_test_that_passes_the_second_time_is_flaky_and_named(checkout: Path) -> None:
    first = {"a.py::one": "passed", "a.py::two[x y]": "failed"}
    status, output, calls = gate(checkout, (1, first), (0, {"a.py::two[x y]": "passed"}))
    assert status == 0
    assert "flaky: a.py::two[x y]: boom" in output
    assert calls[1] == ["-n", "0", "a.py::two[x y]"]
    assert total(checkout) == "2 passed, 0 failed, 0 skipped"


@pytest.mark.parametrize("second", ["failed", "skipped"])
def test_test_that_does_not_pass_the_second_time_fails_the_gate(
    checkout: Path, second: str
) -> None:
    runs = (1, {"a.py::one": "failed"}), (int(second == "failed"), {"a.py::one": second})
    status, output, _ = gate(checkout, *runs)
    assert status == 1
    assert "failed twice: a.py::one: boom" in output


def test_step_that_failed_makes_its_test_failed(checkout: Path) -> None:
    """A test whose call passed and whose tear-down failed."""
    steps = '[("a.py::one", "passed"), ("a.py::one", "failed"), ("a.py::one", "passed")]'
    (checkout / "test").write_text(RUN.replace("results.items()", steps))
    status, output, _ = gate(checkout, (1, {}), (1, {}))
    assert status == 1
    assert "failed twice: a.py::one" in output


def test_fourth_flaky_test_fails_the_gate(checkout: Path) -> None:
    names = [f"a.py::test_{n}" for n in range(4)]
    runs = (1, dict.fromkeys(names, "failed")), (0, dict.fromkeys(names, "passed"))
    status, output, _ = gate(checkout, *runs)
    assert status == 1
    assert "4 tests are flaky" in output


@pytest.mark.parametrize(
    ("status", "results"),
    [
        (2, {"a.py::one": "passed"}),  # interrupted
        (3, {"a.py::one": "failed"}),  # internal error
        (1, {"a.py::one": "passed"}),  # failed without a failed test
        (0, {}),  # no test
        (5, {}),
    ],
)
def test_run_that_did_not_come_to_its_end_fails_at_once(
    checkout: Path, status: int, results: dict[str, str]
) -> None:
    code, output, calls = gate(checkout, (status, results))
    assert (code, len(calls)) == (1, 1)
    assert "did not run to their end" in output


def test_quarantined_test_is_left_out(checkout: Path) -> None:
    (checkout / "tests" / "quarantine.txt").write_text("2026-01-02 tests/a.py::b[x y] # slow\n")
    _, _, calls = gate(checkout, (0, {"a.py::one": "passed"}))
    assert calls == [["--all", "--deselect=tests/a.py::b[x y]"]]
