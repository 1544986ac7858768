"""Objects for which a condition holds: one query or one pass in memory for a definition.

Objects that have an alarm need no message, and an object without one needs it once. A condition
that may hold for all GPUs of a fleet therefore returns ids, and reads rows of new alarms only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet

from appliance.alarms.models import AlarmDefinition, ObjectKind
from appliance.allocations.models import Allocation
from appliance.db.change_log import NO_ID
from appliance.inventory.models import Gpu, Node


class Subject(NamedTuple):
    """An object that an alarm can be about."""

    id: UUID
    name: str
    path: str
    node_id: UUID | None = None
    pool_id: UUID | None = None
    project_id: UUID | None = None


class Finding(NamedTuple):
    subject: Subject
    message: str


class Findings(NamedTuple):
    """Objects that meet a condition."""

    raises: Mapping[UUID, bool]
    """By object. False between the thresholds: a raised alarm stays, and no alarm is raised."""
    describe: Callable[[Collection[UUID]], Iterable[Finding]]
    """Return the findings of these objects, without objects that are gone by now."""


def described(found: Mapping[UUID, Finding]) -> Findings:
    """Return findings that are few and complete already."""
    return Findings(dict.fromkeys(found, True), lambda ids: [found[i] for i in ids])


APPLIANCE = Subject(NO_ID, "appliance", "appliance")


def nodes_of(definition: AlarmDefinition, where: Q) -> Iterable[Node]:
    """Return the nodes at the place of the definition for which `where` holds."""
    rows = Node.objects.present().filter(where)
    if definition.site_id:
        rows = rows.filter(site=definition.site_id)
    return rows.filter(pk=definition.node_id) if definition.node_id else rows


def gpus_of(definition: AlarmDefinition, where: Q) -> QuerySet[Gpu]:
    """Return the GPUs at the place of the definition or below it for which `where` holds."""
    place = {
        "pk": definition.gpu_id,
        "node": definition.node_id,
        "node__site": definition.site_id,
        "pool": definition.pool_id,
    }
    rows = Gpu.objects.exclude(node__state="removed").filter(
        where, **{lookup: value for lookup, value in place.items() if value}
    )
    return rows.select_related("node", "pool")


def node_of_gpus(definition: AlarmDefinition, ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the nodes of those of the GPUs that are at the place of the definition.

    Many ids are compared in memory: Django takes longer to bind them than to read the ids of all.
    """
    if not ids:
        return {}
    where = Q() if len(ids) > MAX_BOUND_IDS else Q(pk__in=list(ids))
    rows = gpus_of(definition, where).select_related(None).values_list("pk", "node_id")
    return {gpu_id: node_id for gpu_id, node_id in rows if gpu_id in ids}


def allocations_of(definition: AlarmDefinition, where: Q) -> Iterable[Allocation]:
    rows = Allocation.objects.filter(where).select_related("owner")
    if definition.pool_id:
        rows = rows.filter(Q(placed_pool=definition.pool_id) | Q(pool=definition.pool_id))
    return rows


def subject_of(row: Any) -> Subject:
    """Return the subject of a node, GPU or allocation."""
    if isinstance(row, Node):
        return Subject(row.pk, row.name, row.path, node_id=row.pk)
    if isinstance(row, Gpu):
        project = row.pool.event_project if row.pool else None
        return Subject(row.pk, row.short_name, row.path, row.node_id, row.pool_id, project)
    pool_id = row.placed_pool_id or row.pool_id
    name = f"{row.name or row.pk} of {row.owner.username}"
    return Subject(row.pk, name, f"allocations/{row.pk}", None, pool_id, row.project_id)


def subjects_of(definition: AlarmDefinition, ids: Collection[UUID]) -> dict[UUID, Subject]:
    """Return those of the objects that are of the kind and at the place of the definition."""
    if not ids:
        return {}
    if definition.object_kind == ObjectKind.APPLIANCE:
        return {APPLIANCE.id: APPLIANCE} if NO_ID in ids else {}
    rows_of = {
        ObjectKind.NODE: nodes_of,
        ObjectKind.GPU: gpus_of,
        ObjectKind.ALLOCATION: allocations_of,
    }[ObjectKind(definition.object_kind)]
    found: dict[UUID, Subject] = {}
    wanted = list(ids)
    for start in range(0, len(wanted), MAX_IDS):
        some = wanted[start : start + MAX_IDS]
        found |= {row.pk: subject_of(row) for row in rows_of(definition, Q(pk__in=some))}
    return found


MAX_IDS = 10_000
"""Ids of one query, below the limit of SQLite."""
MAX_BOUND_IDS = 500
"""Above this number of GPUs the ids of all GPUs are read."""
