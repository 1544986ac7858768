"""Allocations that depend on a user or project."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from appliance.accounts.dependents import Subject, register_blockers, register_cleanup
from appliance.accounts.models import Department
from appliance.allocations.models import Allocation, AllocationState, Partition, Session

MAX_BLOCKERS = 100
MAX_HISTORY = 2000
"""Ended allocations that are deleted with their owner or project, in one transaction."""
ENDED = (AllocationState.RELEASED, AllocationState.FAILED)


def allocations_of(subject: Subject) -> QuerySet[Allocation]:
    if isinstance(subject, Department):
        return Allocation.objects.none()
    return Allocation.objects.filter(pk__in=subject.allocations.values("pk"))


def allocation_blockers(subject: Subject) -> list[dict[str, object]]:
    """Return the allocations that hold or want GPUs, or a history that is too long to delete."""
    live = allocations_of(subject).filter(
        ~Q(state__in=ENDED) | Q(pk__in=Partition.objects.values("allocation_id"))
    )[:MAX_BLOCKERS]
    blockers: list[dict[str, object]] = [
        {"kind": "allocation", "id": str(a.pk), "name": a.name, "state": a.state} for a in live
    ]
    if not blockers and (ended := allocations_of(subject).count()) > MAX_HISTORY:
        name = f"{ended} ended allocations; retention deletes them after a time"
        blockers.append({"kind": "history", "id": str(subject.pk), "name": name})
    return blockers


def delete_history(subject: Subject) -> None:
    ended = allocations_of(subject).filter(state__in=ENDED)
    Session.objects.filter(allocation__in=ended).delete()
    ended.delete()


register_blockers(allocation_blockers)
register_cleanup(delete_history)
