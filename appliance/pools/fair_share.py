"""Fair share: past use of projects, halved every half-life.

A project with much past use waits longer, but not forever.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from appliance.db.writer import write_transaction
from appliance.pools.models import ProjectUse
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import AllocationSettings

PastUse = tuple[UUID, float, datetime]
"""Project, percent-seconds, and the time at which they were recorded."""


def decay(percent_seconds: float, seconds: float, half_life_seconds: float) -> float:
    """Return percent_seconds x 2^(-seconds / half-life), like fair share in Slurm and KAI."""
    return percent_seconds * math.exp(-seconds / half_life_seconds * math.log(2.0))


def load_past_use() -> list[PastUse]:
    return list(
        ProjectUse.objects.order_by("project_id").values_list(
            "project_id", "percent_seconds", "counted_at"
        )
    )


def mean_past_use(now: datetime, uses: Sequence[PastUse]) -> dict[UUID, float]:
    """Return the mean use of each project over about one half-life, in percent of a GPU."""
    half_life = current(AllocationSettings).fair_share_half_life_seconds
    return {
        project_id: decay(percent_seconds, (now - at).total_seconds(), half_life) / half_life
        for project_id, percent_seconds, at in uses
    }


@write_transaction
def record_use(*, use: Mapping[UUID, int], now: datetime) -> None:
    """Add the use of each project, in percent, for the time since the last call."""
    half_life = current(AllocationSettings).fair_share_half_life_seconds
    known = {u.project_id: u for u in ProjectUse.objects.all()}
    for project_id in use.keys() | known.keys():
        row = known.get(project_id) or ProjectUse(project_id=project_id, counted_at=now)
        seconds = max(0.0, (now - row.counted_at).total_seconds())
        row.percent_seconds = (
            decay(row.percent_seconds, seconds, half_life) + use.get(project_id, 0) * seconds
        )
        row.counted_at = now
        row.save()
