"""Who presents a token, kept for a few seconds: most requests come from the same few scripts and pages, and each would read three tables."""

from __future__ import annotations

import copy
import hashlib
import threading
import time
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.signals import post_delete, post_save

from appliance.accounts.models import ApiToken, Project, RoleBinding, User
from appliance.told import in_web_too

KEPT_SECONDS = 60.0
"""Only for changes that another process makes (`manage.py`); this one's take effect with their commit."""
MAX_KEPT = 10_000
_kept: dict[bytes, tuple[float, ApiToken]] = {}
_lock = threading.Lock()
_changes = 0


def key_of(presented: str) -> bytes:
    return hashlib.sha256(presented.encode()).digest()


def known(presented: str) -> ApiToken | None:
    """The token with its user and roles, a copy: what one request does with its user concerns no other."""
    kept = _kept.get(key_of(presented))
    if kept is None or time.monotonic() - kept[0] > KEPT_SECONDS:
        return None
    return copied(kept[1])


def copied(token: ApiToken) -> ApiToken:
    made = copy.copy(token)
    made.user = copy.copy(token.user)
    return made


def changes() -> int:
    return _changes


def keep(presented: str, token: ApiToken, read_at: int) -> None:
    """`read_at`: `changes()` before the rows were read. With several appliances on one database nothing is kept: another one's changes would not be noticed."""
    with _lock:
        if settings.ENVIRONMENT.database or read_at != _changes:
            return
        if len(_kept) >= MAX_KEPT:
            _kept.clear()
        _kept[key_of(presented)] = (time.monotonic(), copied(token))


@in_web_too
def forget() -> None:
    global _changes
    with _lock:
        _changes += 1
        _kept.clear()


def noticed(**_: Any) -> None:
    forget()
    transaction.on_commit(forget)  # a reader may have kept the old rows meanwhile


for _model in (User, ApiToken, RoleBinding, Project):
    post_save.connect(noticed, sender=_model, dispatch_uid=f"identities-{_model.__name__}-save")
    post_delete.connect(noticed, sender=_model, dispatch_uid=f"identities-{_model.__name__}-delete")
