"""Sizes whose products and sums wrap are refused by client library and session server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deploy.supervisor import ROOT
from tests.remoting.node import LocalNode
from tests.softgpu.size_attacks import ATTACKS, CLIENT_ATTACKS

INVALID_VALUE, OUT_OF_MEMORY = 1, 2


@pytest.mark.parametrize("attack", [*ATTACKS, *CLIENT_ATTACKS])
def test_size_that_wraps_is_refused_and_the_session_continues(node: LocalNode, attack: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.softgpu.size_attacks", attack, "libcuda.so.1"],
        env=node.remote_environment() | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code, after = map(int, done.stdout.split())
    assert code in (INVALID_VALUE, OUT_OF_MEMORY)
    assert after == 0, done.stderr
