"""How late the event loop is: everything that people and agents wait for stands behind it."""

from __future__ import annotations

import asyncio
import time
from collections import deque

LOOK_SECONDS = 0.05
KEPT = 1200
"""A minute's worth."""

_lags: deque[float] = deque(maxlen=KEPT)


async def watch_loop() -> None:
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(LOOK_SECONDS)
        _lags.append(time.perf_counter() - begun - LOOK_SECONDS)


def lag_seconds(quantile: float) -> float:
    """Of the last minute; 0 before the loop has run."""
    ordered = sorted(_lags)
    return (
        max(ordered[min(int(len(ordered) * quantile), len(ordered) - 1)], 0.0) if ordered else 0.0
    )
