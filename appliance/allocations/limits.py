"""Quota and limit checks of a placed request. Pure functions."""

from __future__ import annotations

from appliance.allocations.placement import Placement
from appliance.allocations.snapshot import (
    Entitlement,
    PendingAllocation,
    PoolCapacity,
    SchedulerSnapshot,
    Subject,
    Wait,
    WaitingRule,
)


def check_readable(
    snapshot: SchedulerSnapshot, pending: PendingAllocation, pool: PoolCapacity
) -> Wait | None:
    """Return a wait if the pool or a quota of the request's subjects could not be read, or None."""
    if pool.unreadable:
        return Wait(
            WaitingRule.ERROR,
            f"The appliance failed to read pool {pool.name} and tries again; see its log.",
        )
    for subject in pending.subjects:
        entitlement = snapshot.entitlements.get(subject)
        if entitlement and entitlement.unreadable:
            return Wait(
                WaitingRule.ERROR,
                f"The appliance failed to read the quota of the {subject.kind} and tries again; "
                "see its log.",
            )
    return None


def check_limits(
    snapshot: SchedulerSnapshot, pending: PendingAllocation, placement: Placement
) -> Wait | None:
    """Return the first violated limit or quota of the request's subjects, or None.

    A resize that adds nothing violates none.
    """
    size = sum(s.size_percent for s in placement.shares)
    if pending.growth:
        size = pending.growth_percent
    if size <= 0:
        return None
    for subject in pending.subjects:
        entitlement = snapshot.entitlements.get(subject)
        if entitlement and (wait := check_subject(snapshot, pending, subject, entitlement, size)):
            return wait
    return None


def check_subject(
    snapshot: SchedulerSnapshot,
    pending: PendingAllocation,
    subject: Subject,
    entitlement: Entitlement,
    size: int,
) -> Wait | None:
    """Return the limit or quota that the additional size would violate, or None."""
    name, used = f"{subject.kind} {entitlement.name}", snapshot.use[subject]
    limit, quota = entitlement.limit_percent, entitlement.quota_percent
    if limit is not None and used + size > limit:
        return Wait(
            WaitingRule.LIMIT,
            f"The limit of {name} is {format_gpus(limit)}. "
            f"In use: {format_gpus(used)}; requested: {format_gpus(size)}.",
        )
    if quota is None:
        return None
    if not entitlement.borrows and used + size > quota:
        return Wait(
            WaitingRule.QUOTA,
            f"The quota of {name} is {format_gpus(quota)} without borrowing. "
            f"In use: {format_gpus(used)}; requested: {format_gpus(size)}.",
        )
    fixed = snapshot.active.non_preemptible_use[subject]
    if not pending.preemptible and fixed + size > quota:
        return Wait(
            WaitingRule.QUOTA,
            f"Non-preemptible allocations must stay within the quota of {name}, "
            f"{format_gpus(quota)}. In use by them: {format_gpus(fixed)}; "
            f"requested: {format_gpus(size)}. A preemptible request may borrow.",
        )
    return None


def format_gpus(percent: int) -> str:
    """Return a size in percent as a number of GPUs, such as "2.3 GPUs"."""
    return f"{percent / 100:g} GPU" + ("" if percent == 100 else "s")
