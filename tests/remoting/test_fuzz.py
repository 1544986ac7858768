"""The fuzz targets: their seeds cover the decoders, and planted faults are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.fuzz import branch_coverage, run
from tests.suites.fuzz_build import build
from tests.suites.fuzz_faults import FAULTS
from tests.suites.fuzz_targets import TARGETS

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_without_mutations_cover_the_decoder(name: str, tmp_path: Path) -> None:
    program = build(name)
    done = run(name, program, tmp_path, ["-runs=0"])
    assert done.returncode == 0, done.stderr[-4000:]
    assert branch_coverage(name, program, tmp_path) >= TARGETS[name].least_percent


def test_every_target_has_a_planted_fault() -> None:
    assert {name for name, faults in FAULTS.items() if faults} == set(TARGETS)


PLANTED = [(name, fault) for name, faults in FAULTS.items() for fault in faults]


@pytest.mark.parametrize(("name", "fault"), PLANTED)
def test_planted_fault_is_found(name: str, fault: str, tmp_path: Path) -> None:
    done = run(name, build(name, fault), tmp_path, ["-max_total_time=100"])
    assert done.returncode != 0
    assert "SUMMARY: " in done.stderr
