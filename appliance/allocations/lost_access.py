"""Release of allocations whose owner may no longer use their project."""

from __future__ import annotations

import threading
from functools import partial
from uuid import UUID

from appliance.accounts.permissions import Privileges, privileges_by_user
from appliance.allocations.eviction import evict
from appliance.allocations.models import RUNNING, Allocation, AllocationState
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import run_each_in_savepoint, write_transaction

LIVE = (AllocationState.QUEUED, AllocationState.PREPARING, *RUNNING)

_identities_changed = threading.Event()
_identities_changed.set()  # roles may have changed while no appliance ran
change_log.subscribe(lambda change: _identities_changed.set(), Topic.IDENTITY)


def evict_after_changes_of_identities() -> None:
    """Run `evict_without_access` if users or roles have changed since the last call."""
    if _identities_changed.is_set():
        _identities_changed.clear()
        evict_without_access()


@write_transaction
def evict_without_access() -> None:
    """End the allocations of inactive users, and of users without a role in the project."""
    live = Allocation.objects.filter(state__in=LIVE)
    owners = list(
        live.values_list("owner_id", "owner__username", "owner__is_active", "project_id").distinct()
    )
    privileges = privileges_by_user({owner_id for owner_id, *_ in owners})
    for owner_id, name, is_active, project_id in owners:
        if is_active and may_use(privileges[owner_id], project_id):
            continue
        reason = (
            f"{name} has no role in the project any more" if is_active else f"{name} is inactive"
        )
        held = live.filter(owner_id=owner_id, project_id=project_id)
        run_each_in_savepoint(
            "allocations: end of lost access",
            list(held.values_list("pk", flat=True)),
            partial(evict_for, reason),
        )


def evict_for(reason: str, allocation_id: UUID) -> None:
    evict(allocation_id=allocation_id, reason=reason)


def may_use(privileges: Privileges, project_id: UUID) -> bool:
    appliance_wide, by_project = privileges
    return "allocations.use" in appliance_wide | by_project.get(project_id, frozenset())
