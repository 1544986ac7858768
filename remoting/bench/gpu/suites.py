"""Third-party test suites: tests that pass natively must pass remoted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from remoting.bench.gpu.rows import SUITES
from remoting.bench.gpu.runs import NATIVE

SUITE_SECONDS = 1800
OUTCOME = re.compile(r"^(\S+) \((\S+?)\).*\.\.\. (ok|FAIL|ERROR|skipped|expected failure)", re.M)
Passed = set[str]


def numba(python: str, package: str, env: Mapping[str, str]) -> Passed:
    """Run tests with Numba's runner and return those that passed."""
    command = [python, "-m", "numba.runtests", "-v", f"numba.cuda.tests.{package}"]
    done = subprocess.run(
        command,
        env=dict(os.environ) | dict(env),
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
    )
    return {
        f"{m[2]}.{m[1]}"
        for m in OUTCOME.finditer(done.stdout + done.stderr)
        if m[3] in {"ok", "expected failure"}
    }


def pytest_suite(python: str, folder: Path, env: Mapping[str, str]) -> Passed:
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        command = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            f"--junitxml={report.name}",
            str(folder),
        ]
        subprocess.run(
            command,
            env=dict(os.environ) | dict(env),
            stdout=sys.stderr,
            timeout=SUITE_SECONDS,
            check=False,
        )
        cases = list(ET.parse(report.name).getroot().iter("testcase"))
    return {f"{c.get('classname')}.{c.get('name')}" for c in cases if not len(c)}


def compare(name: str, native: Passed, remoted: Passed) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": name,
        "unit": "tests",
        NATIVE: len(native),
        "shm": len(native & remoted),
        "lost": sorted(native - remoted)[:50],
    }
    return row if native else {"name": name, "unit": "tests", "error": "no test passed natively"}


def measure(
    python: str, modes: Mapping[str, Mapping[str, str]], cupy_tests: Path | None
) -> list[dict[str, Any]]:
    """Return one row for each suite.

    `cupy_tests` is the folder tests/cupy_tests/cuda_tests of CuPy's source. Without it, that row
    has no result.
    """
    rows = []
    for name in SUITES[:2]:
        package = name.rsplit(" ", 1)[1]
        rows.append(
            compare(
                name, numba(python, package, modes[NATIVE]), numba(python, package, modes["shm"])
            )
        )
    if cupy_tests:
        rows.append(
            compare(
                SUITES[2],
                pytest_suite(python, cupy_tests, modes[NATIVE]),
                pytest_suite(python, cupy_tests, modes["shm"]),
            )
        )
    return rows
