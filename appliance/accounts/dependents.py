"""Registry of what depends on a user, project or department.

Apps above this one register their objects: some keep the row from being deleted, others are
deleted with it.
"""

from __future__ import annotations

from collections.abc import Callable

from appliance.accounts.models import Department, Project, User
from appliance.api.errors import ApplianceError, Code

Subject = User | Project | Department
Source = Callable[[Subject], list[dict[str, object]]]
"""Returns the blocking objects as kind, id and name. Reads the database."""
Cleanup = Callable[[Subject], None]
"""Deletes what has no meaning without the subject. Runs in the transaction that deletes it."""

_sources: list[Source] = []
_cleanups: list[Cleanup] = []


def register_blockers(source: Source) -> None:
    _sources.append(source)


def register_cleanup(cleanup: Cleanup) -> None:
    _cleanups.append(cleanup)


def delete_with_dependents(subject: Subject, name: str) -> None:
    """Delete the row and what belongs to it.

    Raises ApplianceError IN_USE with the blockers if other objects depend on it.
    """
    if blockers := [blocker for source in _sources for blocker in source(subject)]:
        kinds = sorted({str(blocker["kind"]) for blocker in blockers})
        raise ApplianceError(
            Code.IN_USE,
            f"{name} is in use ({', '.join(kinds)}). Release or delete the blockers first.",
            blockers=blockers,
        )
    for cleanup in _cleanups:
        cleanup(subject)
    subject.delete()
