"""Cache of authenticated API tokens with their users and role bindings.

Without it each request reads three tables, and most requests come from the same few clients.
A change of a user, group, token, role, role binding or project in this process clears the cache
at once and again after the commit. A change by another process (`manage.py`) clears it within
about a second (`appliance/db/other_processes.py`).
"""

from __future__ import annotations

import copy
import hashlib
import threading
import time

from django.conf import settings

from appliance.accounts.models import (
    ApiToken,
    CustomRole,
    Group,
    GroupMember,
    Project,
    RoleBinding,
    User,
)
from appliance.db import change_log
from appliance.db.change_log import Topic

ENTRY_LIFETIME_SECONDS = 60.0
MAX_ENTRIES = 10_000
_entries: dict[bytes, tuple[float, ApiToken]] = {}
_lock = threading.Lock()
_version = 0


def _key(token_text: str) -> bytes:
    return hashlib.sha256(token_text.encode()).digest()


def get(token_text: str) -> ApiToken | None:
    """Return a copy of the cached token with its user, or None if it is absent or expired."""
    entry = _entries.get(_key(token_text))
    if entry is None or time.monotonic() - entry[0] > ENTRY_LIFETIME_SECONDS:
        return None
    return _copy_with_user(entry[1])


def _copy_with_user(token: ApiToken) -> ApiToken:
    """Copy the token and its user, because a request may change attributes of its user."""
    duplicate = copy.copy(token)
    duplicate.user = copy.copy(token.user)
    return duplicate


def version() -> int:
    """Return a number that grows with each `clear`."""
    return _version


def put(token_text: str, token: ApiToken, read_version: int) -> None:
    """Store a token unless the cache was cleared since `read_version`.

    `read_version` is the value of `version()` before the rows were read. With several appliances
    on one database nothing is stored, because changes by another appliance are not noticed.
    """
    with _lock:
        if settings.ENVIRONMENT.database or read_version != _version:
            return
        if len(_entries) >= MAX_ENTRIES:
            _entries.clear()
        _entries[_key(token_text)] = (time.monotonic(), _copy_with_user(token))


def clear() -> None:
    global _version
    with _lock:
        _version += 1
        _entries.clear()


change_log.record_changes_of(
    User,
    ApiToken,
    RoleBinding,
    Project,
    Group,
    GroupMember,
    CustomRole,
    topic=Topic.IDENTITY,
)
change_log.subscribe_pending(lambda change: clear(), Topic.IDENTITY)
# A reader may cache the old rows between the change and its commit.
change_log.subscribe(lambda change: clear(), Topic.IDENTITY)
