"""The C++ unit tests of remoting/unit_tests, one test for each suite."""

from __future__ import annotations

import re
import subprocess

import pytest

from deploy.supervisor import BUILD, ROOT

SOURCES = ROOT / "remoting" / "unit_tests"
SUITE = re.compile(r"^TEST(?:_F)?\((\w+),", re.MULTILINE)
SUITES = sorted({s for f in SOURCES.glob("*.cc") for s in SUITE.findall(f.read_text())})


@pytest.mark.parametrize("suite", SUITES)
def test_unit_cpp(suite: str) -> None:
    command = [str(BUILD / "unit_tests"), f"--gtest_filter={suite}.*", "--gtest_brief=1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    ran = re.search(r"(\d+) tests? from 1 test suite ran", done.stdout)
    assert ran and int(ran[1]) > 0, done.stdout
