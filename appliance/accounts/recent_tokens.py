"""Tokens that were valid lately. Requests with one of them have capacity that strangers cannot use.

A token in this list is authenticated again for each request, so the list may be out of date.
Thread-safe.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.accounts.token_networks import includes
from appliance.runtime.recent import RecentEntries

LIFETIME_SECONDS = 3600.0
MAX_ENTRIES = 20_000


@dataclass(frozen=True)
class RecentToken:
    seen_at: float
    account: str
    """Id of the user."""
    networks: tuple[str, ...]
    """Networks from which the token is valid; all if empty."""


_seen: RecentEntries[bytes, RecentToken] = RecentEntries(MAX_ENTRIES)
_lock = threading.Lock()


def _key(token_text: str) -> bytes:
    return hashlib.sha256(token_text.encode()).digest()


def find(token_text: str) -> RecentToken | None:
    """Return a token that was valid lately from some address, or None."""
    found = _seen.get(_key(token_text))
    recent = found is not None and time.monotonic() - found.seen_at < LIFETIME_SECONDS
    return found if recent else None


def account_of(token_text: str, address: str) -> str | None:
    """Return the account of a token that was valid lately and is so from this address, or None."""
    found = find(token_text)
    return found.account if found and includes(found.networks, address) else None


def update(token_text: str, account: str | None, networks: Sequence[str] = ()) -> None:
    """Record the result of an authentication: the account of a valid token, or None."""
    with _lock:
        if account is not None:
            recent = RecentToken(time.monotonic(), account, tuple(networks))
            _seen.store(_key(token_text), recent)
        else:
            _seen.remove(_key(token_text))
