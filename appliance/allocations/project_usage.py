"""Usage of each project, for fair share and for its charts."""

from __future__ import annotations

import time
from collections import Counter

from django.db.models import Count, Sum
from django.utils import timezone

from appliance.accounts.models import Project
from appliance.allocations.models import (
    OCCUPYING,
    Allocation,
    AllocationState,
    Partition,
    Session,
    SessionState,
)
from appliance.pools import fair_share
from appliance.telemetry import series

PROJECT_METRICS = (
    "allocated_percent",
    "allocated_memory_bytes",
    "partitions",
    "sessions",
    "queued_allocations",
)


def record_project_usage() -> None:
    """Add the current use of each project to its fair share and its series."""
    occupied = Partition.objects.filter(allocation__state__in=OCCUPYING)
    totals = {
        project_id: sums
        for project_id, *sums in occupied.values_list("allocation__project_id").annotate(
            Sum("compute_percent"), Sum("memory_bytes"), Count("pk")
        )
    }
    fair_share.record_use(
        use={project_id: sums[0] for project_id, sums in totals.items()}, now=timezone.now()
    )
    queued = Counter(
        Allocation.objects.filter(state=AllocationState.QUEUED).values_list("project_id", flat=True)
    )
    sessions = Counter(
        Session.objects.exclude(state=SessionState.CLOSED).values_list(
            "allocation__project_id", flat=True
        )
    )
    samples = {
        project_id: [
            *map(float, totals.get(project_id, (0, 0, 0))),
            float(sessions[project_id]),
            float(queued[project_id]),
        ]
        for project_id in Project.objects.values_list("pk", flat=True)
    }
    series.record(PROJECT_METRICS, samples, time.time())
