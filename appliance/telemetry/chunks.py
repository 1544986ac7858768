"""Chunks in the database: encoding, queries and loading. Blocks; never call on the loop."""

from __future__ import annotations

import math
from functools import lru_cache
from uuid import UUID

from django.db import connections, router

from appliance.telemetry import rollups
from appliance.telemetry.models import Chunk, MetricSet
from appliance.telemetry.rollups import Points
from appliance.telemetry.tiers import Tier

# Raw SQL: this runs for every series regularly, and Django takes ten times as long as SQLite.
START_SECONDS = (
    f"SELECT {{aggregate}}(start_seconds) FROM {Chunk._meta.db_table}"  # noqa: S608 - own names
    " WHERE series_id = %s AND resolution_seconds = %s"
)


@lru_cache(256)
def metric_names(metric_set_id: int) -> tuple[str, ...]:
    return tuple(MetricSet.objects.get(pk=metric_set_id).names)


@lru_cache(256)
def metric_set_id(metrics: tuple[str, ...]) -> int:
    """Return the id of the set of these names, created if it is missing.

    Clear the cache after a rollback, because the new row is gone then.
    """
    found = next((s for s in MetricSet.objects.all() if tuple(s.names) == metrics), None)
    return (found or MetricSet.objects.create(names=list(metrics))).pk


def build_chunk(series_id: UUID, tier: Tier, points: Points) -> Chunk:
    """Return an unsaved chunk with these points."""
    return Chunk(
        series_id=series_id,
        resolution_seconds=tier.resolution_seconds,
        start_seconds=math.floor(points.seconds[0]),
        metric_set_id=metric_set_id(points.metrics),
        data=rollups.pack(points, raw=not tier.resolution_seconds),
    )


def first_start(series_id: UUID, tier: Tier) -> int | None:
    """Return the start of the earliest chunk in seconds, or None if there is none."""
    return _start_seconds("MIN", series_id, tier)


def rollup_end(series_id: UUID, tier: Tier) -> float:
    """Return the end of the period of the latest chunk, or -inf if there is none."""
    last = _start_seconds("MAX", series_id, tier)
    if last is None:
        return -math.inf
    return math.floor(last / tier.chunk_seconds + 1) * tier.chunk_seconds


def _start_seconds(aggregate: str, series_id: UUID, tier: Tier) -> int | None:
    connection = connections[router.db_for_read(Chunk)]
    key = series_id if connection.features.has_native_uuid_field else series_id.hex
    with connection.cursor() as cursor:
        cursor.execute(START_SECONDS.format(aggregate=aggregate), [key, tier.resolution_seconds])
        found: int | None = cursor.fetchone()[0]
    return found


def load_points(series_id: UUID, tier: Tier, since: float, until: float) -> Points:
    """Return the stored points of one tier with since <= time < until."""
    earliest = int(max(since - 2 * tier.chunk_seconds, 0))
    rows = Chunk.objects.filter(
        series_id=series_id, resolution_seconds=tier.resolution_seconds, start_seconds__gte=earliest
    )
    if not math.isinf(until):
        rows = rows.filter(start_seconds__lt=math.ceil(until))
    found = [
        rollups.unpack(bytes(data), metric_names(set_id), raw=not tier.resolution_seconds)
        for set_id, data in rows.order_by("start_seconds", "pk").values_list(
            "metric_set_id", "data"
        )
    ]
    return rollups.concatenate(found).between(since, until)
