"""When each allocation was last held by its holder, in memory: heartbeats are too many for the database."""

from __future__ import annotations

import threading
import time
from uuid import UUID

_held: dict[UUID, float] = {}
_lock = threading.Lock()


def held(allocation_id: UUID) -> None:
    with _lock:
        _held[allocation_id] = time.monotonic()


def seconds_since_held(allocation_id: UUID) -> float:
    """Counts from the first look at what is not known: a restarted appliance knows nothing."""
    with _lock:
        now = time.monotonic()
        return now - _held.setdefault(allocation_id, now)


def forget(allocation_id: UUID) -> None:
    with _lock:
        _held.pop(allocation_id, None)
