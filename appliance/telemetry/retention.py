"""Writing of samples to the database, rollup to coarser tiers and deletion of expired chunks.

Blocks; never call on the event loop.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Collection, Iterator
from uuid import UUID

from django.db import router, transaction

from appliance.telemetry import rollups, series
from appliance.telemetry.chunks import (
    build_chunk,
    first_start,
    load_points,
    metric_set_id,
    rollup_end,
)
from appliance.telemetry.models import Chunk
from appliance.telemetry.tiers import TIERS, Tier

BATCH_SERIES, SPREAD_SECONDS = 4, 0.4
"""Series are packed in batches of this size, spread over this time."""
MAX_EXPIRED_ROWS = 20_000
"""Rows deleted in one commit, so that it stays short."""

_write_lock = threading.Lock()
_written_until = math.nan
"""Second up to which all due series have been written."""


def advance(now: float | None = None) -> None:
    """Write the series that became due since the last call, roll up and delete expired chunks.

    Call once a second. A failure leaves the samples in memory for the next call.
    """
    now = time.time() if now is None else now
    try:
        with _write_lock:
            with transaction.atomic(using=router.db_for_write(Chunk)):
                due, last_seconds = write_due_series(now)
            series.discard_written(last_seconds)
            series.remove_ended(due)
    except Exception:
        metric_set_id.cache_clear()
        raise


def write_due_series(now: float) -> tuple[set[UUID], dict[UUID, float]]:
    """Write, roll up and expire inside a transaction.

    Returns the due series, and for each with new samples the time of the last one.
    """
    global _written_until
    first = math.floor(now) if math.isnan(_written_until) else math.floor(_written_until) + 1
    seconds = range(first, math.floor(now) + 1)[-3600:]
    due = {(second, i) for second in seconds for i in series.ids_of_slot(second)}
    ids, last_seconds = {i for _, i in due}, dict[UUID, float]()
    Chunk.objects.bulk_create(
        [c for i in throttled(ids) for c in unwritten_chunks(i, now, last_seconds)]
    )
    for finer, tier in itertools.pairwise(TIERS):
        ending = {i for second, i in due if (second - i.int) % tier.chunk_seconds == 0}
        Chunk.objects.bulk_create(
            [c for i in throttled(ending) for c in rollup_chunks(i, finer, tier, now)]
        )
    for tier, coarser in zip(TIERS, (*TIERS[1:], None), strict=True):
        delete_expired(tier, coarser, now)
    _written_until = now
    return ids, last_seconds


def throttled(ids: Collection[UUID]) -> Iterator[UUID]:
    """Yield the ids in small batches with pauses.

    Packing more than a hundred series at once would hold the GIL and delay requests.
    """
    pause_seconds = SPREAD_SECONDS * BATCH_SERIES / max(len(ids), BATCH_SERIES)
    for n, series_id in enumerate(ids):
        if n and n % BATCH_SERIES == 0:
            time.sleep(pause_seconds)
        yield series_id


def unwritten_chunks(
    series_id: UUID, before: float, last_seconds: dict[UUID, float]
) -> list[Chunk]:
    """Build chunks of the samples in memory and note the time of the last one."""
    segments = series.unwritten_points_before(series_id, before)
    if segments:
        last_seconds[series_id] = float(segments[-1].seconds[-1])
    return [build_chunk(series_id, TIERS[0], p) for p in segments]


def flush() -> None:
    """Write all samples in memory. Called when the process ends, so that none is lost."""
    last_seconds = dict[UUID, float]()
    with _write_lock:
        with transaction.atomic(using=router.db_for_write(Chunk)):
            Chunk.objects.bulk_create(
                [
                    c
                    for i in series.series_ids()
                    for c in unwritten_chunks(i, math.inf, last_seconds)
                ]
            )
        series.discard_written(last_seconds)


def rollup_chunks(series_id: UUID, finer: Tier, tier: Tier, now: float) -> list[Chunk]:
    """Build the missing chunks of a tier for all periods that are complete.

    Includes periods that ended while the appliance was not running.
    """
    earliest = first_start(series_id, finer)
    if earliest is None:
        return []
    step = tier.chunk_seconds
    begin = math.floor(max(rollup_end(series_id, tier), earliest) / step) * step
    until = math.floor((now - completion_delay(finer)) / step) * step
    points = rollups.roll_up(load_points(series_id, finer, begin, until), tier.resolution_seconds)
    periods = (points.between(s, s + step) for s in range(begin, until, step))
    return [build_chunk(series_id, tier, p) for p in periods if len(p)]


def completion_delay(finer: Tier) -> int:
    """Return after how many seconds a tier is complete: its own chunk and those it depends on."""
    return sum(2 * t.chunk_seconds for t in TIERS[: TIERS.index(finer) + 1])


def delete_expired(tier: Tier, coarser: Tier | None, now: float) -> None:
    """Delete chunks after their retention time.

    A series that is no longer in memory is rolled up here before its chunks are deleted.
    """
    expired = Chunk.objects.filter(
        resolution_seconds=tier.resolution_seconds,
        start_seconds__lt=int(now - tier.retention_seconds - tier.chunk_seconds),
    )
    rows = list(expired.order_by("start_seconds").values_list("pk", "series_id")[:MAX_EXPIRED_ROWS])
    if not rows:
        return
    if coarser is not None:
        inactive = {series_id for _, series_id in rows}.difference(series.series_ids())
        Chunk.objects.bulk_create(
            [c for i in inactive for c in rollup_chunks(i, tier, coarser, now)]
        )
    for n in range(0, len(rows), 500):
        Chunk.objects.filter(pk__in=[pk for pk, _ in rows[n : n + 500]]).delete()
