"""Registry of what depends on an object.

Apps register their objects: some keep a row from being deleted, others are deleted with a user,
project or department.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Model

from appliance.accounts.models import Department, Project, User
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record_deleted

M = TypeVar("M", bound=Model)
Subject = User | Project | Department
Blockers = list[dict[str, object]]
Source = Callable[[Sequence[M]], Mapping[UUID, Blockers]]
"""Returns the blocking objects, as kind, id and name, of rows by their ids.

Reads the database with a number of queries that does not depend on the rows.
"""
Cleanup = Callable[[Subject], None]
"""Deletes what has no meaning without the subject. Runs in the transaction that deletes it."""

_sources: defaultdict[type[Model], list[Source[Any]]] = defaultdict(list)
_cleanups: list[Cleanup] = []


def register_blockers(model: type[M], source: Source[M]) -> None:
    _sources[model].append(source)


def blockers_of(rows: Sequence[Model]) -> list[Blockers]:
    """Return the objects that keep each row from being deleted. The rows are of one model."""
    found = [source(rows) for source in _sources[type(rows[0])]] if rows else []
    return [[b for by_id in found for b in by_id.get(row.pk, ())] for row in rows]


def register_cleanup(cleanup: Cleanup) -> None:
    _cleanups.append(cleanup)


def dependent_refusals(subjects: Sequence[Subject]) -> list[ApplianceError | None]:
    """Return the error IN_USE, with the blockers, for each subject on which other objects depend.

    The subjects are of one kind.
    """
    return list(map(in_use, subjects, blockers_of(subjects)))


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
