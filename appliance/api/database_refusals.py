"""Refusals of requests because of the database. A repetition of the request may succeed."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError

from appliance.api.errors import ApplianceError, Code
from appliance.db.lock_conflicts import LOCK_CONFLICT, is_lock_conflict
from appliance.db.writer import WriterBusyError
from appliance.runtime.disk_space import is_disk_full

DISK_FULL = "The disk of the appliance is full. Nothing was changed; free space and try again."
LOST = (
    "The appliance's database does not answer. A change may have been made all the same; repeat "
    "the request with the same Idempotency-Key."
)
LOST_SQLSTATES = ("08", "53", "57P")
"""Classes of PostgreSQL: connection exception, insufficient resources, shutdown."""


def is_database_lost(error: BaseException) -> bool:
    """Return whether PostgreSQL was not reached, or ended the connection."""
    if isinstance(error, InterfaceError):
        return True
    if not isinstance(error, OperationalError):
        return False
    state = getattr(error.__cause__, "sqlstate", "")  # SQLite's errors have none
    return state is None or state.startswith(LOST_SQLSTATES)


def refusal_of(error: BaseException) -> ApplianceError | None:
    """Return the refusal for a failure of the database, or None for another error."""
    if isinstance(error, WriterBusyError):
        return ApplianceError(Code.BUSY, str(error))
    if is_disk_full(error):
        return ApplianceError(Code.DISK_FULL, DISK_FULL)
    if is_lock_conflict(error):
        return ApplianceError(Code.BUSY, LOCK_CONFLICT)
    if is_database_lost(error):
        return ApplianceError(Code.BUSY, LOST)
    return None
