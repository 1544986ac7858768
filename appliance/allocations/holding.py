"""When each allocation was last held by its holder, in memory: heartbeats are too many for the database."""

from __future__ import annotations

import threading
import time
from uuid import UUID

_held: dict[UUID, float] = {}
_lock = threading.Lock()
_started = time.monotonic()


def held(allocation_id: UUID) -> None:
    with _lock:
        _held[allocation_id] = time.monotonic()


def seconds_since_held(allocation_id: UUID) -> float:
    """A restarted appliance knows nothing and so counts from its own start."""
    with _lock:
        return time.monotonic() - _held.get(allocation_id, _started)


def forget(allocation_id: UUID) -> None:
    with _lock:
        _held.pop(allocation_id, None)
