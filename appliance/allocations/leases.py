"""Renewal times of allocation leases, in memory: heartbeats are too frequent for the database.

Thread-safe.
"""

from __future__ import annotations

import threading
import time
from uuid import UUID

_renewed_at: dict[UUID, float] = {}
_lock = threading.Lock()


def renew_lease(allocation_id: UUID) -> None:
    with _lock:
        _renewed_at[allocation_id] = time.monotonic()


def seconds_since_renewal(allocation_id: UUID) -> float:
    """Return the age of the lease.

    The first call for an unknown allocation renews the lease, so a restart expires none.
    """
    with _lock:
        now = time.monotonic()
        return now - _renewed_at.setdefault(allocation_id, now)


def forget_lease(allocation_id: UUID) -> None:
    with _lock:
        _renewed_at.pop(allocation_id, None)
