"""Reachability of nodes, computed from their latest heartbeats in memory.

Heartbeats are too frequent for the database; `fleet.last_seen` writes a summary of them.
Each process of the appliance has its own copy. Thread-safe.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import NodeSettings


@dataclass
class Heartbeat:
    monotonic: float = 0.0
    seen_at: datetime | None = None


_heartbeats: dict[UUID, Heartbeat] = {}
_lock = threading.Lock()

recoveries = 0
"""Grows when a node becomes reachable or is forgotten. Not when a node becomes unreachable."""


def record_heartbeat(node_id: UUID) -> None:
    """Record a heartbeat of the node in this process."""
    global recoveries
    with _lock:
        heartbeat, now = _heartbeats.setdefault(node_id, Heartbeat()), time.monotonic()
        if now - heartbeat.monotonic >= current(NodeSettings).unreachable_seconds:
            recoveries += 1
        heartbeat.monotonic, heartbeat.seen_at = now, timezone.now()


_sinks: list[Callable[[UUID], None]] = []


def add_sink(sink: Callable[[UUID], None]) -> None:
    """Pass published heartbeats to another process."""
    _sinks.append(sink)


def publish_heartbeat(node_id: UUID) -> None:
    """Record a heartbeat in this process and in the HTTP server."""
    record_heartbeat(node_id)
    for sink in _sinks:
        sink(node_id)


def forget_node(node_id: UUID) -> None:
    """Discard the heartbeats of a removed node."""
    global recoveries
    with _lock:
        recoveries += 1
        _heartbeats.pop(node_id, None)


def is_reachable(node_id: UUID) -> bool:
    with _lock:
        heartbeat = _heartbeats.get(node_id)
    return (
        heartbeat is not None
        and time.monotonic() - heartbeat.monotonic < current(NodeSettings).unreachable_seconds
    )


def unreachable(node_ids: Iterable[UUID]) -> set[UUID]:
    """Return those of the nodes that are unreachable."""
    return unreachable_until(node_ids)[0]


def unreachable_until(node_ids: Iterable[UUID]) -> tuple[set[UUID], float]:
    """Return those of the nodes that are unreachable, and how long the result stays valid.

    The second value is a monotonic time before which no other node becomes unreachable. A change
    of `recoveries` invalidates the result earlier.
    """
    timeout = current(NodeSettings).unreachable_seconds
    oldest = time.monotonic() - timeout
    with _lock:
        alive = {n: h.monotonic for n, h in _heartbeats.items() if h.monotonic > oldest}
    return set(node_ids) - alive.keys(), min(alive.values(), default=math.inf) + timeout


def last_seen(node_id: UUID) -> datetime | None:
    """Return the time of the latest heartbeat since this process started, or None."""
    with _lock:
        heartbeat = _heartbeats.get(node_id)
    return heartbeat.seen_at if heartbeat else None


def all_last_seen() -> dict[UUID, datetime]:
    with _lock:
        return {node_id: h.seen_at for node_id, h in _heartbeats.items() if h.seen_at}


change_log.subscribe(lambda change: forget_node(change.object_id), Topic.NODE_REMOVED)
