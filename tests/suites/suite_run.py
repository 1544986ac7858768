"""Runs the test files of a suite with pytest, each in its own process, and collects the outcomes.

A process that crashes or hangs costs the test that was running; a new process runs the tests after
it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ADAPTERS = Path(__file__).with_name("adapters")
TEST_SECONDS = 300
"""A process whose test takes longer is killed."""
START_SECONDS = 300
"""The same for a process that imports and collects tests, or ends."""
POLL_SECONDS = 0.2
PYTEST = (
    "-m",
    "pytest",
    "-q",
    "--rootdir=.",
    "-p",
    "no:cacheprovider",
    "-p",
    "outcomes",
    "--continue-on-collection-errors",
)
COMPLETE = (0, 1, 5)
"""pytest's exit codes if every test ran; 5: all tests were deselected."""


@dataclass(frozen=True)
class Outcome:
    """`state` is started, passed, skipped, failed, crashed or timed out."""

    state: str
    reason: str = ""

    @property
    def is_failure(self) -> bool:
        return self.state in ("failed", "crashed", "timed out")


@dataclass(frozen=True)
class Runner:
    """Interpreter, folder, pytest arguments and environment with which the files of a suite run.

    `environment` returns the environment of a process for a file.
    """

    python: Path
    source: Path
    arguments: Sequence[str]
    environment: Callable[[str], dict[str, str]]
    test_seconds: float = TEST_SECONDS

    def run(
        self, files: Sequence[str], workers: int, tests: Sequence[str] = ()
    ) -> dict[str, Outcome]:
        """Run files, `workers` at a time. Return the outcome of each test, or of the named ones."""
        found: dict[str, Outcome] = {}
        with ThreadPoolExecutor(workers) as pool:
            results = pool.map(lambda file: self._run_file(file, tests), files)
            for file, result in zip(files, results, strict=True):
                found |= result
                passed = sum(o.state == "passed" for o in result.values())
                print(f"{file}: {passed} of {len(result)}", file=sys.stderr, flush=True)
        return found

    def _run_file(self, file: str, tests: Sequence[str]) -> dict[str, Outcome]:
        with tempfile.TemporaryDirectory(prefix="busbar-suite-") as folder:
            record = Path(folder) / "outcomes"
            record.touch()
            remain = True
            while remain:
                before = record.read_text().count('"started"')
                end = self._run_process(file, record, tests)
                remain = bool(end) and record.read_text().count('"started"') > before
            return read_outcomes(record)

    def _run_process(self, file: str, record: Path, tests: Sequence[str]) -> str:
        """Run one process. Return how it ended if it did not end as expected."""
        env = self.environment(file) | {
            "SUITE_OUTCOMES": str(record),
            "SUITE_TESTS": "\n".join(tests),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ADAPTERS), env.get("PYTHONPATH"))))
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [self.python, *PYTEST, *self.arguments, file],
                cwd=self.source,
                env=env,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            state = self._wait(process, record)
            output.seek(0)
            text = output.read().decode(errors="replace")[-600:]
        return record_end(file, record, state, f"{exit_name(process.returncode)}: {text}")

    def _wait(self, process: subprocess.Popen[bytes], record: Path) -> str:
        """Wait for the end; kill the process if a test takes too long. Return how it ended."""
        size, since, limit = -1, time.monotonic(), 0.0
        while process.poll() is None:
            if record.stat().st_size != size:
                size, since = record.stat().st_size, time.monotonic()
                limit = self.test_seconds if running_test(record) else START_SECONDS
            if time.monotonic() - since > limit:
                kill_group(process.pid)
                process.wait()
                return "timed out"
            time.sleep(POLL_SECONDS)
        kill_group(process.pid)  # processes that tests have left
        return "" if process.returncode in COMPLETE else "crashed"


def kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def exit_name(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit {code}"


def record_end(file: str, record: Path, state: str, reason: str) -> str:
    """Record an early end as the outcome of the test that was running, or of the file."""
    running = running_test(record)
    if not state and running:
        state = "crashed"  # a test ended the process with a code of pytest's
    if state:
        line = {"test": running or f"{file}::process", "outcome": state, "reason": reason}
        record.write_text(complete_lines(record) + json.dumps(line) + "\n")
    return state


def complete_lines(record: Path) -> str:
    """Return a record without the part of a line that a test process is still writing."""
    text = record.read_text()
    return text[: text.rfind("\n") + 1]


def running_test(record: Path) -> str:
    lines = complete_lines(record).splitlines()
    last = json.loads(lines[-1]) if lines else {"outcome": ""}
    return last["test"] if last["outcome"] == "started" else ""


def read_outcomes(record: Path) -> dict[str, Outcome]:
    """Return the outcome of each test of a record. A failed phase fails its test."""
    found: dict[str, Outcome] = {}
    for line in complete_lines(record).splitlines():
        entry = json.loads(line)
        if entry["test"] not in found or not found[entry["test"]].is_failure:
            found[entry["test"]] = Outcome(entry["outcome"], entry["reason"])
    return found
