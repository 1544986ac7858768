"""Eviction of allocations: on request, at expiry, for preemption and maintenance."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.events import SYSTEM
from appliance.activity.models import Task
from appliance.activity.tasks import register_canceller
from appliance.allocations import idleness, leases, lifecycle
from appliance.allocations.models import (
    RUNNING,
    Allocation,
    AllocationState,
    Hold,
    Session,
    SessionState,
)
from appliance.allocations.preemption import has_lost_its_cause
from appliance.allocations.queries import allocation_by_id
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed
from appliance.db.writer import run_each_in_savepoint, write_transaction
from appliance.runtime.each import convert_each
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import AllocationSettings


@write_transaction
def evict(
    *, allocation_id: UUID, reason: str, actor: str = SYSTEM, grace_seconds: float = 0.0
) -> Allocation:
    """End an allocation. With a grace period, one that is active or suspended gets notice."""
    allocation = allocation_by_id(allocation_id)
    end(allocation, reason=reason, actor=actor, grace_seconds=grace_seconds)
    return allocation


@write_transaction
def release(*, allocation_id: UUID, actor: str) -> None:
    """End an allocation because a user asks for it, and record it for the audit."""
    allocation = allocation_by_id(allocation_id)
    before = values_of(allocation)
    end(allocation, reason=f"released by {actor}", actor=actor)
    record_changed(allocation, before)


def end(allocation: Allocation, *, reason: str, actor: str, grace_seconds: float = 0.0) -> None:
    if allocation.state == AllocationState.QUEUED:
        lifecycle.leave_queue(allocation, reason=reason, actor=actor)
    elif grace_seconds > 0 and allocation.state in RUNNING:
        lifecycle.announce_eviction(allocation, reason=reason, actor=actor, seconds=grace_seconds)
        allocation.refresh_from_db()
    else:
        lifecycle.begin_release(allocation, reason=reason, actor=actor)


class ExpiryRow(NamedTuple):
    """Columns of an allocation that decide its expiry; the fields are Django lookups."""

    pk: UUID
    evict_at: datetime | None
    end_reason: str
    lifetime_seconds: int | None
    hold: str
    active_at: datetime | None
    placed_pool__max_idle_seconds: int | None


@write_transaction
def evict_expired() -> None:
    """Evict allocations with an expired notice, lifetime, idle limit or lease.

    An open session renews the lease of its allocation. An allocation that its lifetime holds has
    no lease. One that cannot be read or evicted does not keep the others.
    """
    now = timezone.now()
    states = [AllocationState.QUEUED, AllocationState.PREPARING, *RUNNING]
    in_use = set(
        Session.objects.exclude(state=SessionState.CLOSED).values_list("allocation_id", flat=True)
    )
    rows = Allocation.objects.filter(state__in=states).values_list(*ExpiryRow._fields)
    found, _ = convert_each(
        "allocations: reading of expiry",
        [ExpiryRow(*columns) for columns in rows],
        lambda row: expiry_of(row, now, in_use),
        lambda row: row.pk,
    )
    run_each_in_savepoint(
        "allocations: eviction",
        filter(None, found),
        lambda e: evict(allocation_id=e.pk, reason=e.reason, grace_seconds=e.grace_seconds),
        lambda e: e.pk,
    )


class Expiry(NamedTuple):
    """An eviction that is due."""

    pk: UUID
    reason: str
    grace_seconds: float = 0.0


def expiry_of(row: ExpiryRow, now: datetime, in_use: set[UUID]) -> Expiry | None:
    """Return the eviction of an allocation, or None. Renews the lease of one in use."""
    lifetime, active_at = row.lifetime_seconds, row.active_at
    max_idle, times = row.placed_pool__max_idle_seconds, current(AllocationSettings)
    is_due = row.evict_at is not None and row.evict_at <= now
    if is_due and not has_lost_its_cause(row.end_reason):  # the next tick withdraws such a notice
        return Expiry(row.pk, row.end_reason)
    elif lifetime and active_at and active_at + timedelta(seconds=lifetime) <= now:
        return Expiry(row.pk, f"lifetime of {lifetime} s exceeded")
    elif (
        max_idle and active_at and row.evict_at is None and idleness.idle_seconds(row.pk) > max_idle
    ):
        reason = f"no launch or copy for {max_idle} s, the idle limit of the pool"
        return Expiry(row.pk, reason, times.preemption_grace_seconds)
    elif row.hold == Hold.LIFETIME:
        return None
    elif row.pk in in_use:
        leases.renew_lease(row.pk)
    elif leases.seconds_since_renewal(row.pk) > times.hold_seconds:
        missing = (
            "session" if row.hold == Hold.SESSION and active_at else "session and no heartbeat"
        )
        return Expiry(row.pk, f"no {missing} for {times.hold_seconds:.0f} s")
    return None


def cancel_prepare_task(task: Task, user: User) -> None:
    evict(
        allocation_id=UUID(task.path.rpartition("/")[2]),
        reason=f"cancelled by {user.username}",
        actor=user.username,
    )


register_canceller(
    lifecycle.PREPARE_TASK,
    "allocations.manage",
    cancel_prepare_task,
    own_privilege="allocations.use",
)
