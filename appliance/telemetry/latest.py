"""The newest word of each node and the last minutes of each GPU, in memory: heartbeats and samples come too often for the database."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from appliance.activity.feed import hub

KEPT_SAMPLES = 300
"""Of each GPU: five minutes at one a second."""
CHARTED = ("utilisation_percent", "memory_used_bytes", "temperature_celsius", "power_watts")
"""What a sample on the live feed holds, in this order, after its time in seconds."""


@dataclass
class NodeNews:
    monotonic: float = 0.0
    seen_at: datetime | None = None


_nodes: dict[UUID, NodeNews] = {}
_gpus: dict[UUID, deque[tuple[float, Mapping[str, float]]]] = {}
_lock = threading.Lock()


def heard_from(node_id: UUID) -> None:
    with _lock:
        news = _nodes.setdefault(node_id, NodeNews())
        news.monotonic, news.seen_at = time.monotonic(), timezone.now()


def forget(node_id: UUID) -> None:
    with _lock:
        _nodes.pop(node_id, None)


def record_gpus(samples: Mapping[UUID, Mapping[str, float]]) -> None:
    """GPU id to its newest readings; told to the browsers that watch it."""
    now = time.time()
    with _lock:
        for gpu_id, metrics in samples.items():
            _gpus.setdefault(gpu_id, deque(maxlen=KEPT_SAMPLES)).append((now, metrics))
    hub.sampled({str(gpu_id): row_of(now, metrics) for gpu_id, metrics in samples.items()})


def row_of(seconds: float, metrics: Mapping[str, float]) -> list[float | None]:
    return [round(seconds, 2), *(metrics.get(name) for name in CHARTED)]


def reachable(node_id: UUID) -> bool:
    with _lock:
        news = _nodes.get(node_id)
    return news is not None and time.monotonic() - news.monotonic < settings.ENVIRONMENT.unreachable_seconds


def last_seen(node_id: UUID) -> datetime | None:
    with _lock:
        news = _nodes.get(node_id)
    return news.seen_at if news else None


def all_last_seen() -> dict[UUID, datetime]:
    with _lock:
        return {node_id: n.seen_at for node_id, n in _nodes.items() if n.seen_at}


def gpu_metrics(gpu_id: UUID) -> dict[str, Any]:
    with _lock:
        kept = _gpus.get(gpu_id)
        return dict(kept[-1][1]) if kept else {}


def history(gpu_id: str) -> list[list[float | None]]:
    """The kept samples of a GPU, oldest first; empty when it is unknown."""
    try:
        key = UUID(gpu_id)
    except ValueError:
        return []
    with _lock:
        return [row_of(t, m) for t, m in _gpus.get(key, ())]


hub.history = history
