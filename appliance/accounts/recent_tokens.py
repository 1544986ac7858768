"""Tokens that were valid lately. Requests with one of them have capacity that strangers cannot use.

A token in this list is authenticated again for each request, so the list may be out of date.
Thread-safe.
"""

from __future__ import annotations

import hashlib
import threading
import time

from appliance.runtime.recent import RecentEntries

LIFETIME_SECONDS = 3600.0
MAX_ENTRIES = 20_000

_seen_at: RecentEntries[bytes, float] = RecentEntries(MAX_ENTRIES)
_lock = threading.Lock()


def _key(token_text: str) -> bytes:
    return hashlib.sha256(token_text.encode()).digest()


def contains(token_text: str) -> bool:
    seen_at = _seen_at.get(_key(token_text))
    return seen_at is not None and time.monotonic() - seen_at < LIFETIME_SECONDS


def update(token_text: str, *, valid: bool) -> None:
    """Record the result of an authentication."""
    with _lock:
        if valid:
            _seen_at.store(_key(token_text), time.monotonic())
        else:
            _seen_at.remove(_key(token_text))
