"""How long people wait from asking to a GPU that is ready, and how often that is within what their class is promised."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from appliance.allocations.models import Allocation, AllocationState

MOST_ROWS = 20_000
"""Of the newest; older ones are left out, and the answer says from when on it counts."""


@dataclass(frozen=True)
class ServiceClass:
    name: str
    least_priority: int
    target_seconds: float | None
    """None: nothing is promised."""


CLASSES = (
    ServiceClass("interactive", 75, 10.0),
    ServiceClass("normal", 25, 60.0),
    ServiceClass("background", 0, None),
)
"""By priority; 50, which everybody has who asks for nothing else, is normal."""


@dataclass(frozen=True)
class Figures:
    service_class: ServiceClass
    count: int
    p50_seconds: float | None
    p90_seconds: float | None
    p99_seconds: float | None
    within_target_share: float | None
    waiting: int
    longest_waiting_seconds: float | None


def class_of(priority: int) -> ServiceClass:
    return next(c for c in CLASSES if priority >= c.least_priority)


def quantile(ordered: Sequence[float], q: float) -> float | None:
    """The nearest rank: the smallest value that so many are not above."""
    return ordered[max(math.ceil(len(ordered) * q) - 1, 0)] if ordered else None


def share_within(ordered: Sequence[float], target: float | None) -> float | None:
    return (
        None if target is None or not ordered else sum(s <= target for s in ordered) / len(ordered)
    )


def figures(
    started: Iterable[tuple[int, float]], waiting: Iterable[tuple[int, float]]
) -> list[Figures]:
    """Of priorities with the seconds from asking to ready, and with the seconds that those who wait have waited. Pure."""
    waits: dict[str, list[float]] = {c.name: [] for c in CLASSES}
    still: dict[str, list[float]] = {c.name: [] for c in CLASSES}
    for into, given in ((waits, started), (still, waiting)):
        for priority, seconds in given:
            into[class_of(priority).name].append(seconds)
    found = []
    for c in CLASSES:
        ordered = sorted(waits[c.name])
        p50, p90, p99 = (quantile(ordered, q) for q in (0.5, 0.9, 0.99))
        found.append(
            Figures(
                c,
                len(ordered),
                p50,
                p90,
                p99,
                share_within(ordered, c.target_seconds),
                len(still[c.name]),
                max(still[c.name], default=None),
            )
        )
    return found


def measured(
    *, since: datetime, until: datetime, projects: Sequence[UUID] | None, now: datetime
) -> tuple[list[Figures], datetime]:
    """Of what was asked for in that time by these projects (None: all), and from when on it counts. Reads the database."""
    whose = Q() if projects is None else Q(project_id__in=projects)
    rows = (
        Allocation.objects.filter(whose, created_at__gte=since, created_at__lt=until)
        .exclude(active_at=None)
        .order_by("-created_at")
    )
    started = list(rows.values_list("priority", "created_at", "active_at")[:MOST_ROWS])
    waiting = Allocation.objects.filter(whose, state=AllocationState.WAITING).values_list(
        "priority", "created_at"
    )
    begin = started[-1][1] if len(started) == MOST_ROWS else since
    ready = [
        (priority, (active_at - created_at).total_seconds())
        for priority, created_at, active_at in started
        if active_at is not None
    ]
    return figures(
        ready, [(priority, (now - created_at).total_seconds()) for priority, created_at in waiting]
    ), begin
