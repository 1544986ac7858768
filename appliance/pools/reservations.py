"""Create and delete reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from appliance.accounts.actions import Action, register_kind
from appliance.accounts.models import Project
from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record_created, record_deleted
from appliance.db.writer import write_transaction
from appliance.pools.models import Pool, Reservation
from appliance.pools.partition_memory import lack_of_context_room, share_bytes
from appliance.pools.services import MANAGE, find_pool
from appliance.runtime.each import convert_each


@write_transaction
def create_reservation(*, values: Mapping[str, Any], actor: str) -> Reservation:
    """Create a reservation. `allow_pending` permits more than the pool has registered.

    Raises ApplianceError NOT_FOUND for an unknown pool or project, INVALID for an empty or past
    period, UNSATISFIABLE if the pool is too small or a CUDA context needs more memory.
    """
    columns = dict(values)
    allow_pending = columns.pop("allow_pending", False)
    columns["project"] = Project.objects.filter(name=values["project"]).first()
    if columns["project"] is None:
        raise ApplianceError(Code.NOT_FOUND, f"Project {values['project']} not found.")
    check_period(values["starts_at"], values["ends_at"])
    columns["pool"] = find_pool(values["pool"])
    row = Reservation(**columns)
    if not allow_pending:
        check_capacity(row.pool, row.gpu_count, row.percent, (row.starts_at, row.ends_at))
    row.save()
    period = f"{row.starts_at:%Y-%m-%d %H:%M} to {row.ends_at:%Y-%m-%d %H:%M} UTC"
    size = f"{row.gpu_count} x {row.percent} % of pool {row.pool.name}"
    created = f"Reservation {row.name} created: {size}, {period}."
    emit_event(row, "reservation.created", actor, created)
    record_created(row)
    return row


def check_period(starts_at: datetime, ends_at: datetime) -> None:
    """Raise ApplianceError INVALID for an empty or past period."""
    if ends_at <= starts_at or ends_at <= timezone.now():
        raise ApplianceError(
            Code.INVALID, "ends_at must be later than starts_at and in the future."
        )


def emit_event(row: Reservation, kind: str, actor: str, message: str) -> None:
    emit(
        kind,
        path=row.path,
        object_id=row.pk,
        project_id=row.project_id,
        actor=actor,
        message=message,
    )


def check_capacity(
    pool: Pool, gpu_count: int, percent: int, period: tuple[datetime, datetime]
) -> None:
    """Raise ApplianceError UNSATISFIABLE if the pool is too small.

    The reservations of some moment exceed it, or the reserved shares have no room for a context.
    """
    sizes = pool.registered_gpus
    gpus = len(sizes)
    others = Reservation.objects.filter(
        pool=pool, starts_at__lt=period[1], ends_at__gt=period[0]
    ).values_list("starts_at", "ends_at", "gpu_count", "percent")
    most = gpu_count * percent + peak(
        [(max(start, period[0]), end, count * share) for start, end, count, share in others]
    )
    if gpu_count > gpus or most > gpus * 100:
        raise ApplianceError(
            Code.UNSATISFIABLE,
            f"Pool {pool.name} has {gpus} registered GPUs; with this reservation up to "
            f"{most / 100:g} would be reserved at once. Reserve less or another time, or set "
            "allow_pending if GPUs will be added.",
        )
    check_context_room(pool.name, sizes, gpu_count, percent)


def check_context_room(
    pool: str, sizes: Sequence[tuple[int, int]], gpu_count: int, percent: int
) -> None:
    """Raise ApplianceError UNSATISFIABLE if programs could use too few of the reserved shares.

    `sizes` are the bytes of each GPU and of a context on it.
    """
    lacks, _ = convert_each(
        "reservation: reading of GPU",
        sizes,
        lambda size: lack_of_context_room(size[1], share_bytes(size[0], percent)),
    )
    too_small = Counter(filter(None, lacks))
    matching = len(sizes) - too_small.total()
    if gpu_count <= matching:
        return
    lack, count = too_small.most_common(1)[0]
    raise ApplianceError(
        Code.UNSATISFIABLE,
        f"Requested {gpu_count} × {percent} %, but pool {pool} has {matching} matching of "
        f"{len(sizes)} registered GPUs: {count} {lack}. Reserve more of each GPU, or set "
        "allow_pending if GPUs will be added.",
    )


def peak(periods: Sequence[tuple[datetime, datetime, int]]) -> int:
    """Return the largest sum of sizes at any moment. A period excludes its end."""
    return max(
        (
            sum(size for start, end, size in periods if start <= moment < end)
            for moment in {start for start, _, _ in periods}
        ),
        default=0,
    )


@write_transaction
def delete_reservation(*, reservation_id: UUID, actor: str) -> None:
    row = Reservation.objects.get(pk=reservation_id)
    record_deleted(row)
    emit_event(row, "reservation.deleted", actor, f"Reservation {row.name} deleted.")
    row.delete()


RESERVATIONS = register_kind("reservations", Reservation.objects.visible_to)
DELETE = RESERVATIONS.add(Action[Reservation]("delete", MANAGE))
