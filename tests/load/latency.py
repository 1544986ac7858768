"""Statistics of latencies. Failed and missing responses (misses) have infinite latency."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any


def quantile(latencies: Sequence[float], misses: int, q: float) -> float:
    """Return the quantile of latencies and misses; infinite if it is a miss."""
    ordered = sorted(latencies)
    index = math.ceil((len(ordered) + misses) * q) - 1
    return ordered[max(index, 0)] if 0 <= index < len(ordered) else math.inf


def summarise(latencies: Sequence[float], misses: int) -> dict[str, float]:
    """Return quantiles and maximum in milliseconds of latencies in seconds."""
    return {
        "p50_ms": quantile(latencies, misses, 0.5) * 1e3,
        "p99_ms": quantile(latencies, misses, 0.99) * 1e3,
        "max_ms": max(latencies, default=math.inf) * 1e3,
        "count": float(len(latencies)),
        "misses": float(misses),
    }


def reply(**values: Any) -> None:
    """Write one line of JSON to stdout, for the parent process."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()
