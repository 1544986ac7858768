"""Tokens that were valid lately. Requests with one of them have capacity that strangers cannot use.

A token in this list is authenticated again for each request, so the list may be out of date.
Thread-safe.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass

from appliance.runtime.recent import RecentEntries

LIFETIME_SECONDS = 3600.0
MAX_ENTRIES = 20_000


@dataclass(frozen=True)
class RecentToken:
    seen_at: float
    account: str
    """Id of the user."""


_seen: RecentEntries[bytes, RecentToken] = RecentEntries(MAX_ENTRIES)
_lock = threading.Lock()


def _key(token_text: str) -> bytes:
    return hashlib.sha256(token_text.encode()).digest()


def account_of(token_text: str) -> str | None:
    """Return the account of a token that was valid lately, or None."""
    found = _seen.get(_key(token_text))
    recent = found is not None and time.monotonic() - found.seen_at < LIFETIME_SECONDS
    return found.account if found is not None and recent else None


def update(token_text: str, account: str | None) -> None:
    """Record the result of an authentication: the account of a valid token, or None."""
    with _lock:
        if account is not None:
            _seen.store(_key(token_text), RecentToken(time.monotonic(), account))
        else:
            _seen.remove(_key(token_text))
