"""Quotas, reservations and restricted pools that depend on a user, project or department."""

from __future__ import annotations

from appliance.accounts.dependents import Subject, register_blockers, register_cleanup
from appliance.accounts.models import Project
from appliance.pools.models import Pool, Quota


def reservation_blockers(subject: Subject) -> list[dict[str, object]]:
    """Return the reservations of a project."""
    if not isinstance(subject, Project):
        return []
    rows = subject.reservations.values_list("pk", "name")
    return [{"kind": "reservation", "id": str(pk), "name": name} for pk, name in rows]


def pool_blockers(subject: Subject) -> list[dict[str, object]]:
    """Return the pools restricted to the project: without it they could be open to all."""
    if not isinstance(subject, Project):
        return []
    rows = Pool.objects.restricted().values_list("pk", "name", "project_ids")
    return [
        {"kind": "pool", "id": str(pk), "name": name}
        for pk, name, project_ids in rows
        if str(subject.pk) in project_ids
    ]


def delete_quota(subject: Subject) -> None:
    for quota in Quota.objects.filter(subject_id=subject.pk):
        quota.delete()  # the scheduler index relies on the signal


register_blockers(reservation_blockers)
register_blockers(pool_blockers)
register_cleanup(delete_quota)
