"""Quotas, reservations and restricted pools that depend on a user, project or department."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models.signals import post_save

from appliance.accounts.dependents import Blockers, Subject, register_blockers, register_cleanup
from appliance.accounts.models import Project
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.pools.models import Pool, Quota, Reservation


def reservation_blockers(projects: Sequence[Project]) -> dict[UUID, Blockers]:
    found: dict[UUID, Blockers] = {}
    rows = Reservation.objects.filter(project__in=projects)
    for project_id, pk, name in rows.values_list("project_id", "pk", "name"):
        blocker: dict[str, object] = {"kind": "reservation", "id": str(pk), "name": name}
        found.setdefault(project_id, []).append(blocker)
    return found


def pool_blockers(projects: Sequence[Project]) -> dict[UUID, Blockers]:
    """Return the pools restricted to projects: without those they could be open to all."""
    found: dict[UUID, Blockers] = {}
    ids = {str(project.pk) for project in projects}
    rows = Pool.objects.restricted().values_list("pk", "name", "project_ids")
    for pk, name, project_ids in rows:
        for project_id in ids.intersection(project_ids):
            blocker: dict[str, object] = {"kind": "pool", "id": str(pk), "name": name}
            found.setdefault(UUID(project_id), []).append(blocker)
    return found


def delete_quota(subject: Subject) -> None:
    for quota in Quota.objects.filter(subject_id=subject.pk):
        quota.delete()  # the scheduler index relies on the signal


def announce_pools(instance: Project, created: bool, **_: object) -> None:
    """Announce the pools restricted to a project that changed: they show its name."""
    rows = () if created else Pool.objects.restricted().values_list("pk", "project_ids")
    change_log.record_all(Topic.POOL, [pk for pk, ids in rows if str(instance.pk) in ids])


post_save.connect(announce_pools, sender=Project, dispatch_uid="announce-pools")
register_blockers(Project, reservation_blockers)
register_blockers(Project, pool_blockers)
register_cleanup(delete_quota)
