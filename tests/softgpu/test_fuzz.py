"""The fuzzers of the PTX translator and of the code that it emits find a planted fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites import fuzz_emitted
from tests.suites.fuzz import run
from tests.suites.fuzz_targets import build

pytestmark = pytest.mark.exhaustive


def test_unchecked_operand_list_is_found(tmp_path: Path) -> None:
    build("ptx", tmp_path / "fuzz", planted=True)
    done = run("ptx", tmp_path / "fuzz", tmp_path, ["-max_total_time=120"])
    assert done.returncode != 0
    assert (
        "SUMMARY: AddressSanitizer" in done.stderr
        or "SUMMARY: UndefinedBehaviorSanitizer" in done.stderr
    )


def test_emitted_access_without_its_check_is_found() -> None:
    problem = fuzz_emitted.fuzz(100, planted=True)
    assert "touched" in problem


def test_emitted_kernels_reach_their_accesses(tmp_path: Path) -> None:
    probe = fuzz_emitted.build_probe()
    inputs = fuzz_emitted.check_module(probe, 1, tmp_path, runs=50)
    assert inputs >= fuzz_emitted.KERNELS * 50 // 2
