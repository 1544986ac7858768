"""Lag of the event loop: the delay that every request and agent message of a process shares."""

from __future__ import annotations

import asyncio
import time
from collections import deque

PROBE_INTERVAL_SECONDS = 0.05
WINDOW_PROBES = 1200
"""One minute of probes."""

_lags: deque[float] = deque(maxlen=WINDOW_PROBES)


async def probe_loop_lag() -> None:
    """Measure the lag of the running loop until cancelled."""
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(PROBE_INTERVAL_SECONDS)
        _lags.append(time.perf_counter() - begun - PROBE_INTERVAL_SECONDS)


def lag_seconds(quantile: float) -> float:
    """Return a quantile (0 to 1) of the last minute; 0 before the first probe."""
    ordered = sorted(_lags)
    return (
        max(ordered[min(int(len(ordered) * quantile), len(ordered) - 1)], 0.0) if ordered else 0.0
    )
