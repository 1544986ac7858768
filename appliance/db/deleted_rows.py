"""Changes that failed because a row was deleted between its look-up and its use."""

from __future__ import annotations

from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError


def is_missing_row(error: BaseException) -> bool:
    """Return whether a row does not exist, or one that another row refers to."""
    if isinstance(error, ObjectDoesNotExist):
        return True
    cause = error.__cause__ if isinstance(error, IntegrityError) else None
    return (
        getattr(cause, "sqlstate", None) == "23503"
        or getattr(cause, "sqlite_errorname", None) == "SQLITE_CONSTRAINT_FOREIGNKEY"
    )
