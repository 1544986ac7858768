"""Samples of GPUs for charts: the last minutes in memory, and new samples to the feed."""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from uuid import UUID

import numpy as np
import orjson

from appliance.activity.feed import hub
from appliance.telemetry import series

WINDOW_SECONDS = 300
"""Age of the oldest sample that a newly opened chart shows."""
CHART_METRICS = ("utilisation_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
"""Values of a sample on the feed, in this order, after its Unix time."""
ROW_WIDTH = 1 + len(CHART_METRICS)

# GPU id to its samples of the window, flattened; a missing value is NaN. They are kept in memory
# because a page opens a thousand charts at once.
_recent: dict[UUID, array[float]] = {}
_lock = threading.Lock()


@lru_cache(1024)
def chart_columns(metrics: tuple[str, ...]) -> tuple[int | None, ...]:
    """Return the position of each chart metric in `metrics`, or None if it is missing."""
    return tuple(metrics.index(name) if name in metrics else None for name in CHART_METRICS)


def record_gpu_samples(
    metrics: tuple[str, ...], values_by_gpu: Mapping[UUID, Sequence[float]]
) -> None:
    """Record one sample of each GPU and publish it. Called on the event loop; does not block."""
    now, chosen = time.time(), chart_columns(metrics)
    series.record(metrics, values_by_gpu, now)
    rows = {
        gpu_id: [now, *(math.nan if i is None else values[i] for i in chosen)]
        for gpu_id, values in values_by_gpu.items()
    }
    with _lock:
        for gpu_id, row in rows.items():
            recent = _recent.get(gpu_id)
            if recent is None:
                recent = _recent[gpu_id] = array("d")
            recent.extend(row)
            while recent[0] < now - WINDOW_SECONDS:
                del recent[:ROW_WIDTH]
    hub.publish_samples({str(gpu_id): row for gpu_id, row in rows.items()}, feed_row)


def feed_row(values: list[float]) -> list[float | None]:
    """Return a sample as the feed sends it: time rounded to 10 ms, missing values as None."""
    return [round(values[0], 2), *(None if math.isnan(v) else v for v in values[1:])]


def recent_samples_json(gpu_id: str) -> str:
    """Return the samples of the window as a JSON array, oldest first; empty if there are none.

    Takes 40 us; encoding row by row took 0.4 ms.
    """
    try:
        key = UUID(gpu_id)
    except ValueError:
        return ""
    with _lock:
        flat = np.array(_recent.get(key, ()))
    if not len(flat):
        return ""
    rows = flat.reshape(-1, ROW_WIDTH)
    rows[:, 0] = rows[:, 0].round(2)
    return orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY).decode()


hub.history = recent_samples_json
