"""Actions on allocations, and the rules that their views and services follow as well."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Q

from appliance.accounts.actions import (
    Action,
    Refusals,
    by_row,
    register_kind,
)
from appliance.accounts.models import User
from appliance.accounts.permissions import can
from appliance.accounts.places import Place
from appliance.allocations.models import (
    IN_PROGRESS,
    RUNNING,
    Allocation,
    AllocationState,
    Partition,
    SuspensionState,
)
from appliance.allocations.queries import MAX_PREPARED_IDS
from appliance.api.errors import ApplianceError, Code
from appliance.db.prepared import Select
from appliance.inventory.locks import locked_message

USE, CREATE = "allocations.use", "allocations.create"
LOCKED_NODES = Select(
    lambda ids: (
        Partition.objects.filter(allocation_id__in=ids, gpu__node__locked_at__isnull=False)
        .order_by("position")
        .values_list("allocation_id", "gpu__node__name", "gpu__node__lock_reason")
    )
)
UNRESIZABLE = Select(
    lambda ids: (
        Partition.objects.filter(allocation_id__in=ids, gpu__node__resizes_allocations=False)
        .order_by("position")
        .values_list("allocation_id", "gpu__node__name")
    )
)
UNSUSPENDABLE = Select(
    lambda ids: (
        Partition.objects.filter(allocation_id__in=ids)
        .filter(Q(gpu__node__suspends_sessions=False) | Q(over_bytes__gt=0))
        .order_by("gpu__node__suspends_sessions", "position")
        .values_list("allocation_id", "gpu__node__name", "over_bytes")
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
    if allocation.state not in RUNNING:  # a session of a suspended allocation resumes it
        return ApplianceError(
            Code.NOT_ACTIVE,
            f"The allocation is {allocation.state}; tickets require an active allocation.",
        )
    return None


def resize_refusal(user: User, allocation: Allocation) -> ApplianceError | None:
    """Return the error for any other size or mode, apart from what nodes and limits permit."""
    if error := owner_refusal(user, allocation):
        return error
    if not can(user, CREATE, allocation.project_id):
        return ApplianceError(
            Code.DENIED, f"Missing privilege {CREATE} in the allocation's project."
        )
    waits = allocation.resize_requested_at is not None  # it can be withdrawn
    if not waits and (error := suspended_refusal(allocation)):
        return error
    if allocation.state not in RUNNING:
        return ApplianceError(
            Code.CONFLICT,
            f"The allocation is {allocation.state}; only an active allocation can be resized.",
        )
    if allocation.evict_at is not None:
        return ApplianceError(
            Code.CONFLICT, f"The allocation is about to end: {allocation.end_reason}"
        )
    return None


def suspended_refusal(allocation: Allocation) -> ApplianceError | None:
    """Return the error for a resize of an allocation that is suspended, or becomes so."""
    if allocation.state == AllocationState.SUSPENDED:
        text = "only an active allocation can be resized. Resume it first."
    elif allocation.state == AllocationState.ACTIVE and allocation.suspension in IN_PROGRESS:
        text = "resize it when it is active."
    else:
        return None
    progress = allocation.suspension or allocation.state
    waits = allocation.resize_requested_at is not None
    withdrawal = " Its present size and mode withdraw the resize that waits." if waits else ""
    return ApplianceError(Code.CONFLICT, f"The allocation is {progress}; {text}{withdrawal}")


def resize_refusals(user: User, rows: Sequence[Allocation]) -> Refusals:
    """Return the errors of a resize. A resize that waits for a newer agent can be withdrawn."""
    found = {row.pk: resize_refusal(user, row) for row in rows}
    unresized = [r.pk for r in rows if found[r.pk] is None and r.resize_requested_at is None]
    of_nodes = older_node_refusals(unresized)
    return [found[row.pk] or of_nodes.get(row.pk) for row in rows]


def older_node_refusals(ids: Sequence[UUID]) -> dict[UUID, ApplianceError]:
    """Return the error of the first node of each allocation that is too old for a resize."""
    if not ids:
        return {}
    is_small = len(ids) <= MAX_PREPARED_IDS
    rows = UNRESIZABLE.rows(ids=ids) if is_small else UNRESIZABLE.build(ids=ids)
    found: dict[UUID, ApplianceError] = {}
    for pk, node in rows:
        text = f"Node {node} cannot resize allocations. Update its agent and launcher."
        found.setdefault(pk, ApplianceError(Code.NOT_SUPPORTED, text))
    return found


def suspend_refusal(user: User, allocation: Allocation) -> ApplianceError | None:
    """Return the error for a suspension, apart from what its partitions refuse."""
    if error := owner_refusal(user, allocation):
        return error
    if allocation.state == AllocationState.ACTIVE and allocation.suspension not in IN_PROGRESS:
        return None
    state = allocation.suspension or allocation.state
    return ApplianceError(
        Code.CONFLICT, f"The allocation is {state}; only an active allocation can be suspended."
    )


def resume_refusal(user: User, allocation: Allocation) -> ApplianceError | None:
    if error := owner_refusal(user, allocation):
        return error
    progress = allocation.suspension
    if allocation.state not in RUNNING or progress not in IN_PROGRESS:
        return ApplianceError(
            Code.CONFLICT, f"The allocation is {allocation.state}, not suspended."
        )
    if progress == SuspensionState.RESUMING:
        return ApplianceError(Code.CONFLICT, "The allocation is resuming already.")
    return None


def suspend_refusals(user: User, rows: Sequence[Allocation]) -> Refusals:
    found = {row.pk: suspend_refusal(user, row) for row in rows}
    of_partitions = partition_refusals([pk for pk, error in found.items() if error is None])
    return [found[row.pk] or of_partitions.get(row.pk) for row in rows]


def partition_refusals(ids: Sequence[UUID]) -> dict[UUID, ApplianceError]:
    """Return the error of the first partition of each allocation that cannot be suspended now."""
    if not ids:
        return {}
    is_small = len(ids) <= MAX_PREPARED_IDS
    rows = UNSUSPENDABLE.rows(ids=ids) if is_small else UNSUSPENDABLE.build(ids=ids)
    found: dict[UUID, ApplianceError] = {}
    for pk, node, over_bytes in rows:
        found.setdefault(pk, partition_refusal(node, over_bytes))
    return found


def partition_refusal(node: str, over_bytes: int) -> ApplianceError:
    """Return the error for a partition that occupies more than its size, or of an older node."""
    if over_bytes:  # a suspension would free it, and a resumption could never have it back
        return ApplianceError(
            Code.CONFLICT,
            f"Programs still use {over_bytes >> 20} MiB beyond its size. Suspend the allocation"
            " when they have freed them, or give it the larger size again.",
        )
    return ApplianceError(
        Code.NOT_SUPPORTED, f"Node {node} cannot suspend sessions. Update its agent and launcher."
    )


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


ALLOCATIONS = register_kind(
    "allocations", Allocation.objects.visible_to, lambda row: Place(row.project_id)
)
RELEASE = ALLOCATIONS.add(Action("release", USE, by_row(owner_refusal)))
HEARTBEAT = ALLOCATIONS.add(Action("heartbeat", USE, by_row(owner_refusal)))
RESIZE = ALLOCATIONS.add(Action("resize", CREATE, resize_refusals))
SUSPEND = ALLOCATIONS.add(Action("suspend", USE, suspend_refusals))
RESUME = ALLOCATIONS.add(Action("resume", USE, by_row(resume_refusal)))
TICKETS = ALLOCATIONS.add(Action("tickets", USE, ticket_refusals))
FORCE_RELEASE = ALLOCATIONS.add(Action[Allocation]("force_release", "allocations.force"))
