"""GPU samples: into the series, and to the browsers that watch."""

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

KEPT_SECONDS = 300
"""What a browser that opens a chart is given."""
CHARTED = ("utilisation_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
"""What a sample on the live feed holds, in this order, after its time in seconds."""
WIDTH = 1 + len(CHARTED)

_recent: dict[UUID, array[float]] = {}
"""GPU to its last minutes, one sample after the other; a missing reading is NaN. In memory: a page of a thousand charts opens at once."""
_lock = threading.Lock()


@lru_cache(1024)
def columns(metrics: tuple[str, ...]) -> tuple[int | None, ...]:
    return tuple(metrics.index(name) if name in metrics else None for name in CHARTED)


def record_gpus(metrics: tuple[str, ...], values_of: Mapping[UUID, Sequence[float]]) -> None:
    """GPU id to its newest values. Never blocks: the event loop calls it."""
    now, chosen = time.time(), columns(metrics)
    series.record(metrics, values_of, now)
    rows = {
        gpu_id: [now, *(math.nan if i is None else values[i] for i in chosen)]
        for gpu_id, values in values_of.items()
    }
    with _lock:
        for gpu_id, row in rows.items():
            recent = _recent.get(gpu_id)
            if recent is None:
                recent = _recent[gpu_id] = array("d")
            recent.extend(row)
            while recent[0] < now - KEPT_SECONDS:
                del recent[:WIDTH]
    hub.sampled({str(gpu_id): row for gpu_id, row in rows.items()}, row_of)


def row_of(values: list[float]) -> list[float | None]:
    return [round(values[0], 2), *(None if math.isnan(v) else v for v in values[1:])]


def last_minutes(gpu_id: str) -> str:
    """As JSON, oldest first; empty when it is unknown. 40 us: rows that were made and encoded one by one took 0.4 ms."""
    try:
        key = UUID(gpu_id)
    except ValueError:
        return ""
    with _lock:
        flat = np.array(_recent.get(key, ()))
    if not len(flat):
        return ""
    rows = flat.reshape(-1, WIDTH)
    rows[:, 0] = rows[:, 0].round(2)
    return orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY).decode()


hub.history = last_minutes
