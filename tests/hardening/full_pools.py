"""A session with more work than its pools hold: time of the work, and gaps on 5 % of a core."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from tests.load.results import result
from tests.remoting.conftest import compile_program
from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode
from tests.suites import soak_counts, soak_starvation

COUNTS = {"both_ways": 1_000_000, "events": 100_000, "streams": 10_000}
"""Copies of 64 bytes each way without a synchronisation; outstanding events; streams."""
TRANSPORTS = {"shm": "shared memory", "tls": "TLS"}


def measure_counts(folder: Path, share: float = 1.0) -> list[dict[str, Any]]:
    """Return the seconds of each case with each transport, for a share of the counts."""
    program, node = compile_program("backpressure", folder), LocalNode()
    rows = []
    try:
        for name, count in COUNTS.items():
            for transport, mode in TRANSPORTS.items():
                env, begin = node.remote_environment(**MODES[mode]), time.monotonic()
                problem = soak_counts.problem(program, name, env, int(count * share))
                seconds = math.inf if problem else time.monotonic() - begin
                more = {"count": int(count * share), "problem": problem}
                row = f"full_pools_{name}_{transport}_s"
                rows.append(result(row, "s", seconds, soak_counts.SECONDS, more=more))
    finally:
        node.stop()
    return rows


def measure_starvation(
    seconds: float, share: float = soak_starvation.SHARE
) -> list[dict[str, Any]]:
    """Return the longest time without a completion on a share of a core with each transport."""
    runs = soak_starvation.run_modes(2 * seconds, share)
    return [
        result(
            f"starved_longest_gap_{transport}_s",
            "s",
            runs[mode].longest_gap_seconds,
            soak_starvation.LONGEST_GAP_SECONDS,
            more={"seconds": seconds, "share": share, "used_share": runs[mode].used_share},
            problem=runs[mode].problem,
        )
        for transport, mode in TRANSPORTS.items()
    ]
