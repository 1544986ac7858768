"""Latencies from the moment something was due; what failed or never came is a miss, which no quantile forgives."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any


def quantile(latencies: Sequence[float], misses: int, q: float) -> float:
    """Infinite when the misses reach so far."""
    ordered = sorted(latencies)
    place = math.ceil((len(ordered) + misses) * q) - 1
    return ordered[max(place, 0)] if 0 <= place < len(ordered) else math.inf


def summary(latencies: Sequence[float], misses: int) -> dict[str, float]:
    """In milliseconds."""
    return {
        "p50_ms": quantile(latencies, misses, 0.5) * 1e3,
        "p99_ms": quantile(latencies, misses, 0.99) * 1e3,
        "most_ms": max(latencies, default=math.inf) * 1e3,
        "count": float(len(latencies)),
        "misses": float(misses),
    }


def say(**values: Any) -> None:
    """One line for the process that started this one."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()
