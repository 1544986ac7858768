"""Programs that submit more than the queues and pools of a session hold."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode
from tests.suites.soak_kills import Footprint

COUNTS = {
    "copies_in": 100_000,
    "blocked_stream": 20_000,
    "both_ways": 20_000,
    "events": 10_000,
    "streams": 2_000,
    "all_pools": 80_000,
}
"""Copies, events or streams. So many in `all_pools` that the client pauses a stream."""
SECONDS = 300
STOPPED_BYTES = 350 << 20
"""Of a session server: its pinned memory has at most 256 MiB."""
SETTLED_SECONDS = 2
"""Without growth of its memory, after which a session server does nothing more."""


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


def settled_bytes(pid: int) -> int:
    """Return the memory of a process when it has stopped to grow, or is above STOPPED_BYTES."""
    highest, grown_at = 0, time.monotonic()
    while highest < STOPPED_BYTES and time.monotonic() - grown_at < SETTLED_SECONDS:
        if (resident := Footprint.of(pid).resident_bytes) > highest:
            highest, grown_at = resident, time.monotonic()
        time.sleep(0.02)
    return highest


@pytest.mark.parametrize("mode", MODES)
def test_session_of_a_stopped_program_keeps_little_data(
    node: LocalNode, compiled: Callable[[str], Path], mode: str
) -> None:
    program = subprocess.Popen(
        [compiled("backpressure"), "reads_later", "20000"],
        env=node.remote_environment(**MODES[mode]),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)
        server = next(s.pid for s in node.sessions() if s.client_pid == program.pid)
        assert settled_bytes(server) < STOPPED_BYTES
        program.send_signal(signal.SIGCONT)
        assert program.communicate(timeout=SECONDS)[0] == "reads_later: passed\n"
    finally:
        program.kill()
        program.wait()
