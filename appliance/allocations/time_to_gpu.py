"""Time from request to active allocation, by service class, with the share within target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from appliance.allocations.models import Allocation, AllocationState
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import RetentionSettings

MAX_ROWS = 20_000
"""Older allocations are left out; the result contains the start of the covered period."""


@dataclass(frozen=True)
class ServiceClass:
    name: str
    least_priority: int
    target_seconds: float | None
    """None: no target."""


CLASSES = (
    ServiceClass("interactive", 75, 10.0),
    ServiceClass("normal", 25, 60.0),
    ServiceClass("background", 0, None),
)
"""Service classes by priority; the default priority 50 is normal."""


@dataclass(frozen=True)
class Statistics:
    service_class: ServiceClass
    count: int
    p50_seconds: float | None
    p90_seconds: float | None
    p99_seconds: float | None
    within_target_share: float | None
    queued: int
    longest_queued_seconds: float | None


def service_class(priority: int) -> ServiceClass:
    return next(c for c in CLASSES if priority >= c.least_priority)


def quantile(ordered: Sequence[float], q: float) -> float | None:
    """Return the nearest-rank quantile of sorted values, or None if there are none."""
    return ordered[max(math.ceil(len(ordered) * q) - 1, 0)] if ordered else None


def share_within(ordered: Sequence[float], target: float | None) -> float | None:
    if target is None or not ordered:
        return None
    return sum(s <= target for s in ordered) / len(ordered)


def compute_statistics(
    started: Iterable[tuple[int, float]], queued: Iterable[tuple[int, float]]
) -> list[Statistics]:
    """Return statistics by class. Arguments are pairs of priority and seconds in the queue."""
    start_times: dict[str, list[float]] = {c.name: [] for c in CLASSES}
    ages: dict[str, list[float]] = {c.name: [] for c in CLASSES}
    for target, pairs in ((start_times, started), (ages, queued)):
        for priority, seconds in pairs:
            target[service_class(priority).name].append(seconds)
    return [class_statistics(c, sorted(start_times[c.name]), ages[c.name]) for c in CLASSES]


def class_statistics(
    c: ServiceClass, ordered: Sequence[float], ages: Sequence[float]
) -> Statistics:
    p50, p90, p99 = (quantile(ordered, q) for q in (0.5, 0.9, 0.99))
    return Statistics(
        c,
        len(ordered),
        p50,
        p90,
        p99,
        share_within(ordered, c.target_seconds),
        len(ages),
        max(ages, default=None),
    )


def measure(
    *, since: datetime, until: datetime, projects: Sequence[UUID] | None, now: datetime
) -> tuple[list[Statistics], datetime]:
    """Return statistics of requests created in the period, and the start of the covered period.

    `projects` None means all projects. Queued requests count whenever they were created. The
    period begins when retention permits: of earlier requests, only the long ones are left.
    """
    since = max(since, now - timedelta(days=current(RetentionSettings).allocations_days))
    in_projects = Q() if projects is None else Q(project_id__in=projects)
    rows = (
        Allocation.objects.filter(in_projects, created_at__gte=since, created_at__lt=until)
        .exclude(active_at=None)
        .order_by("-created_at")
    )
    started = list(rows.values_list("priority", "created_at", "active_at")[:MAX_ROWS])
    queued = Allocation.objects.filter(in_projects, state=AllocationState.QUEUED).values_list(
        "priority", "created_at"
    )
    start = started[-1][1] if len(started) == MAX_ROWS else since
    start_times = [
        (priority, (active_at - created_at).total_seconds())
        for priority, created_at, active_at in started
        if active_at is not None
    ]
    ages = [(priority, (now - created_at).total_seconds()) for priority, created_at in queued]
    return compute_statistics(start_times, ages), start
