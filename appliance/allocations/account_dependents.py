"""Allocations that depend on a user or project."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from appliance.accounts.dependents import Blockers, Subject, register_blockers, register_cleanup
from appliance.accounts.models import Department, Project, User
from appliance.allocations.models import Allocation, AllocationState, Partition, Session

MAX_BLOCKERS = 100
MAX_HISTORY = 2000
"""Ended allocations that are deleted with their owner or project, in one transaction."""
ENDED = (AllocationState.RELEASED, AllocationState.FAILED)


def allocations_of(subject: Subject) -> QuerySet[Allocation]:
    if isinstance(subject, Department):
        return Allocation.objects.none()
    return Allocation.objects.filter(pk__in=subject.allocations.values("pk"))


def allocation_blockers(subjects: Sequence[User | Project]) -> dict[UUID, Blockers]:
    """Return the allocations that hold or want GPUs, or a history that is too long to delete.

    The subjects are of one kind.
    """
    column = "owner_id" if isinstance(subjects[0], User) else "project_id"
    rows = Allocation.objects.filter(**{f"{column}__in": [s.pk for s in subjects]})
    found = live_blockers(rows, column)
    history = rows.values_list(column).annotate(count=Count("pk")).filter(count__gt=MAX_HISTORY)
    for subject_id, count in history.order_by():
        name = f"{count} ended allocations; retention deletes them after a time"
        blocker: dict[str, object] = {"kind": "history", "id": str(subject_id), "name": name}
        found.setdefault(subject_id, [blocker])
    return found


def live_blockers(rows: QuerySet[Allocation], column: str) -> dict[UUID, Blockers]:
    """Return the first MAX_BLOCKERS allocations of each subject that hold or want GPUs."""
    live = rows.filter(~Q(state__in=ENDED) | Q(pk__in=Partition.objects.values("allocation_id")))
    numbered = live.annotate(
        number=Window(RowNumber(), partition_by=F(column), order_by=F("pk").desc())
    )
    first = numbered.filter(number__lte=MAX_BLOCKERS)
    found: dict[UUID, Blockers] = {}
    for subject_id, pk, name, state in first.values_list(column, "pk", "name", "state"):
        blocker: dict[str, object] = {
            "kind": "allocation",
            "id": str(pk),
            "name": name,
            "state": state,
        }
        found.setdefault(subject_id, []).append(blocker)
    return found


def delete_history(subject: Subject) -> None:
    ended = allocations_of(subject).filter(state__in=ENDED)
    Session.objects.filter(allocation__in=ended).delete()
    ended.delete()


register_blockers(User, allocation_blockers)
register_blockers(Project, allocation_blockers)
register_cleanup(delete_history)
