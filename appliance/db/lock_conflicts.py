"""Changes that failed because another process held a row or the database for too long."""

from __future__ import annotations

from django.db import OperationalError

LOCK_CONFLICT = "Another process changes the same objects. Nothing was changed; try again."
SQLSTATES = ("40P01", "55P03")
"""Of PostgreSQL: deadlock_detected, and lock_not_available after `lock_timeout`."""


def is_lock_conflict(error: BaseException) -> bool:
    """Return whether a repetition of the change may succeed, because another one was in its way."""
    if not isinstance(error, OperationalError):
        return False
    cause = error.__cause__
    return (
        getattr(cause, "sqlstate", None) in SQLSTATES
        or getattr(cause, "sqlite_errorname", None) == "SQLITE_BUSY"
    )
