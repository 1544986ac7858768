"""Limits of client input at, above and far above the limit, with address and UB sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.suites.fuzz_build import LIMITS, build

pytestmark = pytest.mark.long  # its objects are those of the fuzzers


def test_limits_hold_at_above_and_far_above(tmp_path: Path) -> None:
    env = os.environ | {
        "ASAN_OPTIONS": "detect_leaks=0",
        "LLVM_PROFILE_FILE": str(tmp_path / "profile"),
    }
    done = subprocess.run(
        [build(LIMITS)], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.count(": ok") == 24
