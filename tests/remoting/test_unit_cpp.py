"""The C++ unit tests of remoting/unit_tests, one test for each suite."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from deploy.supervisor import BUILD, ROOT

SOURCES = ROOT / "remoting" / "unit_tests"
SUITE = re.compile(r"^TEST(?:_F)?\((\w+),", re.MULTILINE)
SUITES = sorted({s for f in SOURCES.glob("*.cc") for s in SUITE.findall(f.read_text())})


def run(tests: str, env: dict[str, str] | None = None, seconds: int = 120) -> None:
    command = [str(BUILD / "unit_tests"), f"--gtest_filter={tests}", "--gtest_brief=1"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, env=env
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    ran = re.search(r"(\d+) tests? from 1 test suite ran", done.stdout)
    assert ran and int(ran[1]) > 0, done.stdout


@pytest.mark.parametrize("suite", SUITES)
def test_unit_cpp(suite: str) -> None:
    run(f"{suite}.*")


@pytest.mark.long
@pytest.mark.parametrize(
    "cases",
    [
        "TurnModel.RandomTenantsGetTheirShares",  # ten thousand
        "TurnModel.RandomTenantsWithPausesGetTheirShares",
        "TurnModel.RandomNoticesCostOthersNothing",
        "TurnWaits.ProgramsWithWaitsEndBesideOthers",
    ],
)
def test_a_hundred_times_as_many_random_cases_of_the_model(cases: str) -> None:
    run(cases, os.environ | {"BUSBAR_MODEL_TIMES": "100"}, seconds=3600)
