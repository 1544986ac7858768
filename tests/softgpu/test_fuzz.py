"""The fuzzer of the code that the PTX translator emits finds a planted fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites import fuzz_emitted

pytestmark = pytest.mark.long


def test_emitted_access_without_its_check_is_found() -> None:
    _, problem = fuzz_emitted.fuzz(100, planted=True)
    assert "touched" in problem


def test_emitted_kernels_reach_their_accesses(tmp_path: Path) -> None:
    inputs = fuzz_emitted.check_module(1, tmp_path, runs=50)
    assert inputs >= fuzz_emitted.KERNELS * 50 // 2
