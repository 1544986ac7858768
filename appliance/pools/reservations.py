"""Create and delete reservations."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.utils import timezone

from appliance.accounts.models import Project
from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.db.writer import write_transaction
from appliance.pools.models import Reservation
from appliance.pools.services import find_pool


@write_transaction
def create_reservation(
    *,
    name: str,
    pool: str,
    project: str,
    gpu_count: int,
    percent: int,
    starts_at: datetime,
    ends_at: datetime,
    actor: str,
) -> Reservation:
    """Create a reservation.

    Raises ApplianceError NOT_FOUND for an unknown pool or project, INVALID for an empty or past
    period.
    """
    owner = Project.objects.filter(name=project).first()
    if owner is None:
        raise ApplianceError(Code.NOT_FOUND, f"Project {project} not found.")
    if ends_at <= starts_at or ends_at <= timezone.now():
        raise ApplianceError(
            Code.INVALID, "ends_at must be later than starts_at and in the future."
        )
    row = Reservation.objects.create(
        name=name,
        pool=find_pool(pool),
        project=owner,
        gpu_count=gpu_count,
        percent=percent,
        starts_at=starts_at,
        ends_at=ends_at,
    )
    period = f"{starts_at:%Y-%m-%d %H:%M} to {ends_at:%Y-%m-%d %H:%M} UTC"
    emit(
        "reservation.created",
        path=row.path,
        object_id=row.pk,
        project_id=row.pool.event_project,
        actor=actor,
        message=f"Reservation {name} created: {gpu_count} x {percent} % of pool {pool}, {period}.",
    )
    return row


@write_transaction
def delete_reservation(*, reservation_id: UUID, actor: str) -> None:
    row = Reservation.objects.get(pk=reservation_id)
    path = row.path
    row.delete()
    emit(
        "reservation.deleted",
        path=path,
        object_id=reservation_id,
        project_id=row.pool.event_project,
        actor=actor,
        message=f"Reservation {row.name} deleted.",
    )
