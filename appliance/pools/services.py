"""Pools, quotas and reservations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from appliance.accounts.models import Department, Project, User
from appliance.activity.feed import hub
from appliance.activity.services import emit
from appliance.errors import ApplianceError, Code
from appliance.pools.models import DEFAULT_POOL, Pool, Quota, Reservation
from appliance.pools.subject_kind import SubjectKind
from appliance.writer import writes


@writes
def ensure_default_pool() -> None:
    """New GPUs go to the oldest pool."""
    Pool.objects.get_or_create(name=DEFAULT_POOL)


@dataclass(frozen=True, slots=True)
class PoolRules:
    """What a pool may be told; None leaves it as it is."""

    policies: Sequence[str] | None = None
    fallbacks: Sequence[str] | None = None
    """Names of other pools, in the order in which they are tried."""
    max_lifetime_seconds: int | None = None
    """0: no end."""
    max_idle_seconds: int | None = None
    """0: no end."""
    network: str | None = None
    """Of a node's endpoints, those of this network are tried first; empty: as the node has them."""
    projects: Sequence[str] | None = None
    """Names of those that it is kept for; none: open to all."""


@writes
def pool_create(*, name: str, rules: PoolRules, actor: str) -> Pool:
    try:
        with transaction.atomic():
            pool = Pool.objects.create(name=name)
    except IntegrityError:
        raise ApplianceError(
            Code.CONFLICT, f"There is a pool {name} already; choose another name."
        ) from None
    emit(
        "pool.created",
        path=pool.path,
        object_id=pool.pk,
        actor=actor,
        message=f"Pool {name} was created.",
    )
    if changes_of(pool, rules):
        pool_change(pool_id=pool.pk, rules=rules, actor=actor)
        pool.refresh_from_db()
    return pool


@writes
def pool_change(*, pool_id: UUID, rules: PoolRules, actor: str) -> Pool:
    pool = Pool.objects.select_for_update().get(pk=pool_id)
    changes = changes_of(pool, rules)
    if changes:
        save_changes(pool, changes)
        emit(
            "pool.changed",
            path=pool.path,
            object_id=pool.pk,
            actor=actor,
            message=f"Pool {pool.name}: {', '.join(sorted(changes))} changed.",
        )
    return pool


def save_changes(row: Pool | Quota, changes: Mapping[str, object]) -> None:
    """By `save`, not `update`: the scheduler listens for it."""
    for name, value in changes.items():
        setattr(row, name, value)
    row.version += 1
    row.save(update_fields=[*changes, "version"])


@writes
def pool_delete(*, pool: Pool, blockers: Sequence[Mapping[str, object]], actor: str) -> None:
    """`blockers`: what is in it or waits for it, as the floor above knows."""
    if pool.name == DEFAULT_POOL:
        raise ApplianceError(
            Code.IN_USE, "The default pool stays: new GPUs come into it.", blockers=[]
        )
    if blockers:
        raise ApplianceError(
            Code.IN_USE,
            f"Pool {pool.name} is in use; move its GPUs and release its allocations first.",
            blockers=list(blockers),
        )
    Reservation.objects.filter(pool=pool).delete()
    Pool.objects.filter(pk=pool.pk).delete()
    emit(
        "pool.deleted",
        path=pool.path,
        object_id=None,
        actor=actor,
        message=f"Pool {pool.name} was deleted.",
    )
    hub.gone("pool", pool.pk, "pools.view")


def changes_of(pool: Pool, rules: PoolRules) -> dict[str, object]:
    wanted: dict[str, object] = {}
    if rules.policies is not None:
        wanted["policies"] = list(rules.policies)
    if rules.fallbacks is not None:
        wanted["fallbacks"] = [
            str(pool_named(name).pk) for name in rules.fallbacks if name != pool.name
        ]
    if rules.max_lifetime_seconds is not None:
        wanted["max_lifetime_seconds"] = rules.max_lifetime_seconds or None
    if rules.max_idle_seconds is not None:
        wanted["max_idle_seconds"] = rules.max_idle_seconds or None
    if rules.network is not None:
        wanted["network"] = rules.network
    if rules.projects is not None:
        wanted["project_ids"] = sorted(
            str(subject_id_of(SubjectKind.PROJECT, name)) for name in set(rules.projects)
        )
    return {key: value for key, value in wanted.items() if getattr(pool, key) != value}


def pool_named(name: str) -> Pool:
    pool = Pool.objects.filter(name=name).first()
    if pool is None:
        raise ApplianceError(
            Code.NOT_FOUND, f"There is no pool {name}; `busbar pool list` shows them."
        )
    return pool


def subject_id_of(kind: SubjectKind, name: str) -> UUID:
    row: User | Project | Department | None
    if kind is SubjectKind.USER:
        row = User.objects.filter(username=name).first()
    elif kind is SubjectKind.PROJECT:
        row = Project.objects.filter(name=name).first()
    else:
        row = Department.objects.filter(name=name).first()
    if row is None:
        raise ApplianceError(Code.NOT_FOUND, f"There is no {kind} {name}.")
    return UUID(str(row.pk))


def subject_names(quotas: Sequence[Quota]) -> dict[UUID, str]:
    """Id of each quota's subject to its name."""
    ids = [q.subject_id for q in quotas]
    return {
        **dict(User.objects.filter(pk__in=ids).values_list("pk", "username")),
        **dict(Project.objects.filter(pk__in=ids).values_list("pk", "name")),
        **dict(Department.objects.filter(pk__in=ids).values_list("pk", "name")),
    }


@writes
def quota_create(*, kind: SubjectKind, subject: str, actor: str, **values: object) -> Quota:
    """`values` are columns of Quota."""
    try:
        with transaction.atomic():
            quota = Quota.objects.create(
                subject_kind=kind, subject_id=subject_id_of(kind, subject), **values
            )
    except IntegrityError:
        raise ApplianceError(
            Code.CONFLICT, f"The {kind} {subject} has a quota already; change that one."
        ) from None
    emit(
        "quota.created",
        path=quota.path,
        object_id=quota.pk,
        actor=actor,
        message=f"The {kind} {subject} has a quota now.",
        values=plain_values(values),
    )
    return quota


def plain_values(values: dict[str, object]) -> dict[str, object]:
    return {k: v for k, v in values.items() if isinstance(v, int | float | str | None)}


@writes
def quota_change(*, quota_id: UUID, actor: str, **values: object) -> Quota:
    quota = Quota.objects.select_for_update().get(pk=quota_id)
    if any(getattr(quota, key) != value for key, value in values.items()):
        save_changes(quota, values)
        emit(
            "quota.changed",
            path=quota.path,
            object_id=quota.pk,
            actor=actor,
            message=f"The quota of a {quota.subject_kind} changed.",
            values=plain_values(values),
        )
    return quota


@writes
def quota_delete(*, quota_id: UUID, actor: str) -> None:
    quota = Quota.objects.get(pk=quota_id)
    quota.delete()
    emit(
        "quota.deleted",
        path=f"quotas/{quota_id}",
        object_id=quota_id,
        actor=actor,
        message=f"The quota of a {quota.subject_kind} is gone.",
    )


@writes
def reservation_create(
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
    owner = Project.objects.filter(name=project).first()
    if owner is None:
        raise ApplianceError(Code.NOT_FOUND, f"There is no project {project}.")
    if ends_at <= starts_at or ends_at <= timezone.now():
        raise ApplianceError(
            Code.INVALID, "A reservation must end after it starts, and in the future."
        )
    row = Reservation.objects.create(
        name=name,
        pool=pool_named(pool),
        project=owner,
        gpu_count=gpu_count,
        percent=percent,
        starts_at=starts_at,
        ends_at=ends_at,
    )
    window = f"{starts_at:%Y-%m-%d %H:%M} to {ends_at:%Y-%m-%d %H:%M} UTC"
    emit(
        "reservation.created",
        path=row.path,
        object_id=row.pk,
        actor=actor,
        message=f"{name}: {gpu_count} x {percent} % of pool {pool}, {window}.",
    )
    return row


@writes
def reservation_delete(*, reservation_id: UUID, actor: str) -> None:
    row = Reservation.objects.get(pk=reservation_id)
    path = row.path
    row.delete()
    emit(
        "reservation.deleted",
        path=path,
        object_id=reservation_id,
        actor=actor,
        message=f"The reservation {row.name} is gone.",
    )
