"""Programs that submit more than the queues and pools of a session hold."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode

COUNTS = {
    "copies_in": 100_000,
    "blocked_stream": 20_000,
    "both_ways": 20_000,
    "events": 10_000,
    "streams": 2_000,
    "all_pools": 80_000,
}
"""Copies, events or streams. So many in `all_pools` that the client pauses a stream."""
SECONDS = 60


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", COUNTS)
def test_program_ends_with_correct_results(
    node: LocalNode, compiled: Callable[[str], Path], name: str, mode: str
) -> None:
    done = subprocess.run(
        [compiled("backpressure"), name, str(COUNTS[name])],
        env=node.remote_environment(**MODES[mode]),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout == f"{name}: passed\n", done.stdout + done.stderr[-2000:]
