"""Programs that submit more than the queues and pools of a session hold."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remoting.node import NULL_DRIVER, LocalNode

COUNTS = {
    "copies_in": 100_000,
    "blocked_stream": 20_000,
    "both_ways": 20_000,
    "events": 10_000,
    "streams": 500,
    "all_pools": 30_000,
}
"""Copies, events or streams. The software GPU needs a thread for each stream."""
MODES = {
    "shared memory": {},
    "TLS": {"BUSBAR_TRANSPORT": "tls"},
    "without arenas": {"BUSBAR_ARENA": "0"},
}
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


@pytest.mark.parametrize("mode", ["shared memory", "TLS"])
def test_10_000_streams_on_the_null_driver(compiled: Callable[[str], Path], mode: str) -> None:
    node = LocalNode(NULL_DRIVER)
    try:
        done = subprocess.run(
            [compiled("backpressure"), "streams", "10000"],
            env=node.remote_environment(**MODES[mode]),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.stdout == "streams: passed\n", done.stdout + done.stderr[-2000:]
    finally:
        node.stop()
