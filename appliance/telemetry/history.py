"""Reading of metric history from the database and from memory. Blocks; never call on the loop."""

from __future__ import annotations

import math
from collections.abc import Iterable
from uuid import UUID

from appliance.api.errors import ApplianceError, Code
from appliance.telemetry import rollups, series
from appliance.telemetry.chunks import load_points, rollup_end
from appliance.telemetry.rollups import Points
from appliance.telemetry.tiers import TIERS, Tier

MAX_POINTS = 20_000
TARGET_POINTS = 1_000
"""Without a requested resolution, the finest tier with up to four times as many is chosen."""


def read_points(series_id: UUID, tier: Tier, since: float, until: float) -> Points:
    """Return the points of one tier up to the newest sample.

    Combines the stored chunks of the tier with a rollup of the finer tiers after them.
    """
    if tier is TIERS[0]:
        # Read memory first: samples that are written in between are then in both, not in neither.
        memory = series.unwritten_points(series_id)
        disk = load_points(series_id, tier, since, until)
        newer = memory.between(max(since, disk.seconds[-1] + 1e-6 if len(disk) else since), until)
        return rollups.concatenate([disk, newer])
    end = max(since, rollup_end(series_id, tier))
    finer = TIERS[TIERS.index(tier) - 1]
    return rollups.concatenate(
        [
            load_points(series_id, tier, since, min(end, until)),
            rollups.roll_up(read_points(series_id, finer, end, until), tier.resolution_seconds),
        ]
    )


def choose_tier(since: float, until: float, now: float, resolution_seconds: int | None) -> Tier:
    """Return the requested tier, or the finest one that covers the period with few points.

    Raises ApplianceError with INVALID for an unknown resolution or too many points.
    """
    if resolution_seconds is not None:
        tier = next((t for t in TIERS if t.resolution_seconds == resolution_seconds), None)
        if tier is None:
            valid = ", ".join(str(t.resolution_seconds) for t in TIERS)
            raise ApplianceError(
                Code.INVALID,
                f"resolution_seconds must be one of {valid} (was {resolution_seconds}).",
            )
        count = math.ceil((until - since) / max(tier.resolution_seconds, 1))
        if count > MAX_POINTS:
            raise ApplianceError(
                Code.INVALID,
                f"The response would have {count} points, more than {MAX_POINTS};"
                " request a shorter period or a coarser resolution_seconds.",
            )
        return tier
    fitting: Iterable[Tier] = (
        t
        for t in TIERS
        if now - since <= t.retention_seconds
        and (until - since) / max(t.resolution_seconds, 1) <= 4 * TARGET_POINTS
    )
    return next(iter(fitting), TIERS[-1])
