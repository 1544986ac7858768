"""The fuzzer of the PTX translator finds a planted fault."""

from __future__ import annotations

from pathlib import Path

import pytest

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
