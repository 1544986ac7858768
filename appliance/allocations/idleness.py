"""Since when each allocation has neither launched nor copied anything, in memory: counters come every second."""

from __future__ import annotations

import threading
import time
from uuid import UUID

_counted: dict[UUID, int] = {}
"""Session to all that it had done when it was last looked at."""
_busy: dict[UUID, float] = {}
_lock = threading.Lock()
_started = time.monotonic()


def worked(allocation_id: UUID, session_id: UUID, done: int) -> None:
    """`done`: launches and bytes of the session so far."""
    with _lock:
        if _counted.get(session_id) != done:
            _counted[session_id] = done
            _busy[allocation_id] = time.monotonic()


def began(allocation_id: UUID) -> None:
    with _lock:
        _busy[allocation_id] = time.monotonic()


def idle_seconds(allocation_id: UUID) -> float:
    """A restarted appliance counts from its own start."""
    with _lock:
        return time.monotonic() - _busy.get(allocation_id, _started)


def session_ended(session_id: UUID) -> None:
    with _lock:
        _counted.pop(session_id, None)


def forget(allocation_id: UUID) -> None:
    with _lock:
        _busy.pop(allocation_id, None)
