"""GPU samples: into the series, and to the browsers that watch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from appliance.activity.feed import hub
from appliance.telemetry import history, series
from appliance.telemetry.rollups import TIERS

KEPT_SECONDS = 300
"""What a browser that opens a chart is given."""
CHARTED = ("utilisation_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
"""What a sample on the live feed holds, in this order, after its time in seconds."""


def record_gpus(samples: Mapping[UUID, Mapping[str, float]]) -> None:
    """GPU id to its newest readings. Never blocks: the event loop calls it."""
    now = time.time()
    series.record(samples, now)
    hub.sampled({str(gpu_id): row_of(now, metrics) for gpu_id, metrics in samples.items()})


def row_of(seconds: float, metrics: Mapping[str, float]) -> list[float | None]:
    return [round(seconds, 2), *(metrics.get(name) for name in CHARTED)]


def last_minutes(gpu_id: str) -> list[list[float | None]]:
    """Oldest first; empty when it is unknown. Reads the database."""
    try:
        key = UUID(gpu_id)
    except ValueError:
        return []
    now = time.time()
    return list(charted(history.points(key, TIERS[0], now - KEPT_SECONDS, now + 1)))


def charted(points: Any) -> Iterator[list[float | None]]:
    for i, seconds in enumerate(points.seconds):
        yield row_of(float(seconds), {m: float(v) for m, v in zip(points.metrics, points.mean[i], strict=True) if not math.isnan(v)})


hub.history = last_minutes
