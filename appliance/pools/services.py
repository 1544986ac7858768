"""Create, change and delete pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction

from appliance.accounts.actions import (
    Action,
    Refusals,
    raise_refusal,
    register_kind,
)
from appliance.accounts.dependents import Blockers, blockers_of
from appliance.accounts.places import Place
from appliance.activity.events import emit
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed, record_created, record_deleted
from appliance.db import change_log
from appliance.db.change_log import Removal, Topic
from appliance.db.writer import write_transaction
from appliance.pools.models import DEFAULT_POOL, Pool, Quota, Reservation
from appliance.pools.subject_kind import SubjectKind
from appliance.pools.subjects import find_subject_id


@write_transaction
def ensure_default_pool() -> None:
    """Create the default pool if it does not exist. New GPUs join the oldest pool."""
    Pool.objects.get_or_create(name=DEFAULT_POOL)


@write_transaction
def create_pool(*, values: Mapping[str, Any], actor: str, simulated: bool = False) -> Pool:
    """Create a pool. Raises ApplianceError CONFLICT if the name is taken."""
    name = values["name"]
    try:
        with transaction.atomic():
            pool = Pool.objects.create(name=name, simulated=simulated)
    except IntegrityError:
        raise ApplianceError(
            Code.CONFLICT, f"A pool named {name} already exists. Choose another name."
        ) from None
    if columns := changed_columns(pool, values):
        save_columns(pool, columns)
    emit_pool_event(pool, "pool.created", f"Pool {name} created.", actor)
    record_created(pool)
    return pool


@write_transaction
def update_pool(*, pool_id: UUID, values: Mapping[str, Any], actor: str) -> Pool:
    """Change settings. `values` are the fields of a request."""
    pool = Pool.objects.select_for_update().get(pk=pool_id)
    before, changed = values_of(pool), changed_columns(pool, values)
    if changed:
        save_columns(pool, changed)
        if "required_isolation" in changed:
            for node_id in pool.gpus.values_list("node_id", flat=True).distinct():
                change_log.record(Topic.NODE_CAPACITY, node_id)
        if "project_ids" in changed:  # who may view its name
            announce_referrers(pool)
        message = f"Pool {pool.name} changed: {', '.join(sorted(changed))}."
        emit_pool_event(pool, "pool.changed", message, actor)
    record_changed(pool, before)
    return pool


def save_columns(row: Pool | Quota, columns: Mapping[str, object]) -> None:
    """Save columns with `save` instead of `update`: the scheduler index relies on its signal."""
    for name, value in columns.items():
        setattr(row, name, value)
    row.version += 1
    row.save(update_fields=[*columns, "version"])


@write_transaction
def delete_pool(*, pool: Pool, actor: str) -> None:
    """Delete a pool and its reservations.

    Raises ApplianceError IN_USE for the default pool, and with blockers for pools in use.
    """
    for refusal in deletion_refusals([pool]):
        raise_refusal(refusal)
    Reservation.objects.filter(pool=pool).delete()
    Pool.objects.filter(pk=pool.pk).delete()
    record_deleted(pool)
    emit(
        "pool.deleted",
        path=pool.path,
        object_id=None,
        project_id=pool.event_project,
        actor=actor,
        message=f"Pool {pool.name} deleted.",
    )
    change_log.record(Topic.POOL, pool.pk, Removal("pools.view"))
    announce_referrers(pool)


def announce_referrers(pool: Pool) -> None:
    """Announce the pools that have this one as a fallback: they show its name."""
    fallbacks = Pool.objects.values_list("pk", "fallbacks")
    change_log.record_all(Topic.POOL, [pk for pk, ids in fallbacks if str(pool.pk) in ids])


def deletion_refusals(pools: Sequence[Pool]) -> Refusals:
    """Return the error for the default pool, and for each pool that is in use."""
    return [
        default_pool_refusal(pool) or in_use(pool, blockers)
        for pool, blockers in zip(pools, blockers_of(pools), strict=True)
    ]


def in_use(pool: Pool, blockers: Blockers) -> ApplianceError | None:
    if not blockers:
        return None
    return ApplianceError(
        Code.IN_USE,
        f"Pool {pool.name} is in use. Move its GPUs and release its allocations first.",
        blockers=blockers,
    )


def default_pool_refusal(pool: Pool) -> ApplianceError | None:
    if pool.name != DEFAULT_POOL:
        return None
    return ApplianceError(
        Code.IN_USE, "The default pool cannot be deleted because new GPUs join it.", blockers=[]
    )


MANAGE = "pools.manage"
POOLS = register_kind(
    "pools",
    Pool.objects.visible_to,
    lambda pool: Place(inventory=pool.places()),
    lambda name: Pool.objects.filter(name=name).first(),
)
UPDATE = POOLS.add(Action("update", MANAGE, places=Pool.places))
DELETE = POOLS.add(Action("delete", MANAGE, lambda _, p: deletion_refusals(p)))


def changed_columns(pool: Pool, values: Mapping[str, Any]) -> dict[str, object]:
    """Return the columns with new values that differ from the current ones."""
    columns = dict(values)
    columns |= {n: value or None for n, value in values.items() if n.endswith("_seconds")}
    if "fallbacks" in values:
        columns["fallbacks"] = [
            str(find_fallback(pool, name).pk) for name in values["fallbacks"] if name != pool.name
        ]
    if "projects" in values:
        columns["project_ids"] = sorted(
            str(find_subject_id(SubjectKind.PROJECT, name)) for name in set(columns.pop("projects"))
        )
    return {name: value for name, value in columns.items() if getattr(pool, name) != value}


def find_pool(name: str) -> Pool:
    """Return the pool. Raises ApplianceError NOT_FOUND."""
    pool = Pool.objects.filter(name=name).first()
    if pool is None:
        raise ApplianceError(
            Code.NOT_FOUND, f"Pool {name} not found. List pools with: busbar pool list"
        )
    return pool


def find_fallback(pool: Pool, name: str) -> Pool:
    """Return the pool. Raises ApplianceError NOT_FOUND, or INVALID if only one is simulated."""
    fallback = find_pool(name)
    if fallback.simulated != pool.simulated:
        raise ApplianceError(
            Code.INVALID,
            f"Pool {name} cannot be a fallback of pool {pool.name}: only one of them has"
            " simulated GPUs.",
        )
    return fallback


def emit_pool_event(pool: Pool, kind: str, message: str, actor: str) -> None:
    emit(
        kind,
        path=pool.path,
        object_id=pool.pk,
        project_id=pool.event_project,
        actor=actor,
        message=message,
    )
