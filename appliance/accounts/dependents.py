"""Registry of what depends on a user, project or department.

Apps above this one register their objects: some keep the row from being deleted, others are
deleted with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from appliance.accounts.models import Department, Project, User
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record_deleted

Subject = User | Project | Department
Blockers = list[dict[str, object]]
Source = Callable[[Sequence[Subject]], Mapping[UUID, Blockers]]
"""Returns the blocking objects, as kind, id and name, of subjects of one kind by their ids.

Reads the database with a number of queries that does not depend on the subjects.
"""
Cleanup = Callable[[Subject], None]
"""Deletes what has no meaning without the subject. Runs in the transaction that deletes it."""

_sources: list[Source] = []
_cleanups: list[Cleanup] = []


def register_blockers(source: Source) -> None:
    _sources.append(source)


def register_cleanup(cleanup: Cleanup) -> None:
    _cleanups.append(cleanup)


def dependent_refusals(subjects: Sequence[Subject]) -> list[ApplianceError | None]:
    """Return the error IN_USE, with the blockers, for each subject on which other objects depend.

    The subjects are of one kind.
    """
    found = [source(subjects) for source in _sources]
    return [
        in_use(subject, [b for by_id in found for b in by_id.get(subject.pk, ())])
        for subject in subjects
    ]


def in_use(subject: Subject, blockers: Blockers) -> ApplianceError | None:
    if not blockers:
        return None
    kinds = sorted({str(blocker["kind"]) for blocker in blockers})
    return ApplianceError(
        Code.IN_USE,
        f"{type(subject).__name__} {subject} is in use ({', '.join(kinds)}). Release or delete the "
        "blockers first.",
        blockers=blockers,
    )


def delete_with_dependents(subject: Subject) -> None:
    """Delete the row and what belongs to it, and record it.

    Raises ApplianceError IN_USE with the blockers if other objects depend on it.
    """
    for refusal in dependent_refusals([subject]):
        if refusal is not None:
            raise refusal
    for cleanup in _cleanups:
        cleanup(subject)
    record_deleted(subject)
    subject.delete()
