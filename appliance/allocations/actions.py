"""Actions on allocations, and the rules that their views and services follow as well."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from appliance.accounts.actions import (
    Action,
    Refusals,
    by_row,
    register_kind,
)
from appliance.accounts.models import User
from appliance.accounts.permissions import can
from appliance.allocations.models import Allocation, AllocationState, Partition
from appliance.allocations.queries import MAX_PREPARED_IDS
from appliance.api.errors import ApplianceError, Code
from appliance.db.prepared import Select
from appliance.inventory.locks import locked_message

USE = "allocations.use"
LOCKED_NODES = Select(
    lambda ids: (
        Partition.objects.filter(allocation_id__in=ids, gpu__node__locked_at__isnull=False)
        .order_by("position")
        .values_list("allocation_id", "gpu__node__name", "gpu__node__lock_reason")
    )
)


def owner_refusal(user: User, allocation: Allocation) -> ApplianceError | None:
    """Return the error for a user who neither owns nor manages the allocation."""
    if allocation.owner_id == user.pk or can(user, "allocations.manage", allocation.project_id):
        return None
    return ApplianceError(
        Code.DENIED, "The allocation has another owner. Only its owner or an operator may do this."
    )


def ticket_refusal(user: User, allocation: Allocation) -> ApplianceError | None:
    """Return the error for tickets, apart from locked nodes."""
    if allocation.owner_id != user.pk:
        return ApplianceError(
            Code.DENIED, "Only the owner of an allocation may open sessions under it."
        )
    if not can(user, USE, allocation.project_id):
        return ApplianceError(
            Code.DENIED, "Missing privilege allocations.use in the allocation's project."
        )
    if allocation.state != AllocationState.ACTIVE:
        return ApplianceError(
            Code.NOT_ACTIVE,
            f"The allocation is {allocation.state}; tickets require an active allocation.",
        )
    return None


def ticket_refusals(user: User, rows: Sequence[Allocation]) -> Refusals:
    found = {row.pk: ticket_refusal(user, row) for row in rows}
    locked = locked_refusals([pk for pk, error in found.items() if error is None])
    return [found[row.pk] or locked.get(row.pk) for row in rows]


def locked_refusals(ids: Sequence[UUID]) -> dict[UUID, ApplianceError]:
    """Return the error of the first locked node of each allocation that has one."""
    if not ids:
        return {}
    rows = (
        LOCKED_NODES.rows(ids=ids) if len(ids) <= MAX_PREPARED_IDS else LOCKED_NODES.build(ids=ids)
    )
    found: dict[UUID, ApplianceError] = {}
    for pk, name, reason in rows:
        found.setdefault(pk, ApplianceError(Code.NODE_LOCKED, locked_message(name, reason)))
    return found


def visible_allocations(user: User, ids: Sequence[UUID]) -> Sequence[Allocation]:
    return list(Allocation.objects.visible_to(user).filter(pk__in=ids))


ALLOCATIONS = register_kind("allocations", visible_allocations)
RELEASE = ALLOCATIONS.add(Action("release", USE, by_row(owner_refusal)))
HEARTBEAT = ALLOCATIONS.add(Action("heartbeat", USE, by_row(owner_refusal)))
TICKETS = ALLOCATIONS.add(Action("tickets", USE, ticket_refusals))
FORCE_RELEASE = ALLOCATIONS.add(Action[Allocation]("force_release", "allocations.force"))
