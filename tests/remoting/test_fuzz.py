"""The fuzz targets: their seeds cover the decoders, and a planted fault is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.fuzz import branch_coverage, run
from tests.suites.fuzz_targets import TARGETS, build

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_without_mutations_cover_the_decoder(name: str, tmp_path: Path) -> None:
    build(name, tmp_path / "fuzz")
    done = run(name, tmp_path / "fuzz", tmp_path, ["-runs=0"])
    assert done.returncode == 0, done.stderr[-4000:]
    assert branch_coverage(name, tmp_path / "fuzz", tmp_path) >= TARGETS[name].least_percent


@pytest.mark.parametrize("name", ["records", "images"])
def test_read_past_the_end_is_found(name: str, tmp_path: Path) -> None:
    build(name, tmp_path / "fuzz", planted=True)
    done = run(name, tmp_path / "fuzz", tmp_path, ["-max_total_time=100"])
    assert done.returncode != 0
    assert "SUMMARY: " in done.stderr
