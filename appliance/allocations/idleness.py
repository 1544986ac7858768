"""Time of the last launch or copy of each allocation, in memory: counters come every second.

Thread-safe.
"""

from __future__ import annotations

import threading
import time
from uuid import UUID

_work_done: dict[UUID, int] = {}
"""Launches plus bytes of each session at the last report."""
_busy_at: dict[UUID, float] = {}
_lock = threading.Lock()
_started = time.monotonic()


def record_work(allocation_id: UUID, session_id: UUID, work_done: int) -> None:
    """Mark the allocation as busy if the total of the session has changed.

    `work_done` is the number of launches plus the number of bytes copied so far.
    """
    with _lock:
        if _work_done.get(session_id) != work_done:
            _work_done[session_id] = work_done
            _busy_at[allocation_id] = time.monotonic()


def start_idle_timer(allocation_id: UUID) -> None:
    with _lock:
        _busy_at[allocation_id] = time.monotonic()


def idle_seconds(allocation_id: UUID) -> float:
    """Return the seconds since the last work, or since the process started."""
    with _lock:
        return time.monotonic() - _busy_at.get(allocation_id, _started)


def forget_session(session_id: UUID) -> None:
    with _lock:
        _work_done.pop(session_id, None)


def forget_allocation(allocation_id: UUID) -> None:
    with _lock:
        _busy_at.pop(allocation_id, None)
