"""What each project has had lately. Use is forgotten by half every half-life, so that who took much waits, but not for ever."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.conf import settings

from appliance.pools.models import ProjectUse
from appliance.writer import writes


def decayed(percent_seconds: float, seconds: float, half_life_seconds: float) -> float:
    """percent_seconds x 2^(-seconds / half-life): the decay of Slurm's and KAI's fair share."""
    return percent_seconds * math.exp(-seconds / half_life_seconds * math.log(2.0))


PastUse = tuple[UUID, float, datetime]
"""Project, percent-seconds, and when they were counted."""


def past_uses() -> list[PastUse]:
    return list(
        ProjectUse.objects.order_by("project_id").values_list(
            "project_id", "percent_seconds", "counted_at"
        )
    )


def past_use(now: datetime, uses: Sequence[PastUse]) -> dict[UUID, float]:
    """Project to its mean use over about one half-life, in percent of a GPU."""
    half_life = settings.ENVIRONMENT.fair_share_half_life_seconds
    return {
        project_id: decayed(percent_seconds, (now - at).total_seconds(), half_life) / half_life
        for project_id, percent_seconds, at in uses
    }


@writes
def count_use(*, use: Mapping[UUID, int], now: datetime) -> None:
    """Adds what each project has in use (in percent) since it was last counted."""
    half_life = settings.ENVIRONMENT.fair_share_half_life_seconds
    known = {u.project_id: u for u in ProjectUse.objects.all()}
    for project_id in use.keys() | known.keys():
        row = known.get(project_id) or ProjectUse(project_id=project_id, counted_at=now)
        seconds = max(0.0, (now - row.counted_at).total_seconds())
        row.percent_seconds = (
            decayed(row.percent_seconds, seconds, half_life) + use.get(project_id, 0) * seconds
        )
        row.counted_at = now
        row.save()
