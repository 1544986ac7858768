"""What was measured, on disk: closed minutes are written, made into coarser tiers, and dropped when they are old. Blocks; never on the loop."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from uuid import UUID

from django.db import connections, router, transaction

from appliance.errors import ApplianceError, Code
from appliance.telemetry import rollups, series
from appliance.telemetry.models import Chunk, MetricSet
from appliance.telemetry.rollups import TIERS, Points, Tier

MAX_POINTS = 20_000
WANTED_POINTS = 1_000
"""Without a resolution the finest is taken that does not give many more."""
AT_ONCE, SPREAD_SECONDS = 4, 0.4
"""Series, and over how much of a second those whose turn it is are spread."""
EXPIRE_ROWS = 20_000
"""Dropped in one go, so that a commit stays short."""

_writing = threading.Lock()
_advanced = math.nan
"""Up to which second the series whose turn it was were written."""


@lru_cache(256)
def names_of(metric_set_id: int) -> tuple[str, ...]:
    return tuple(MetricSet.objects.get(pk=metric_set_id).names)


@lru_cache(256)
def set_of(metrics: tuple[str, ...]) -> int:
    known = next((s for s in MetricSet.objects.all() if tuple(s.names) == metrics), None)
    return (known or MetricSet.objects.create(names=list(metrics))).pk


def chunk_of(series_id: UUID, tier: Tier, points: Points) -> Chunk:
    return Chunk(
        series_id=series_id, resolution_seconds=tier.resolution_seconds, start_seconds=math.floor(points.seconds[0]), metric_set_id=set_of(points.metrics),
        data=rollups.packed(points, raw=not tier.resolution_seconds),
    )  # fmt: skip


def advance(now: float | None = None) -> None:
    """Call every second. Writes the series whose turn came since the last call, rolls up, and drops what is old."""
    now = time.time() if now is None else now
    try:
        with _writing:
            with transaction.atomic(using=router.db_for_write(Chunk)):
                turns, last_seconds = write_turns(now)
            series.drop(last_seconds)
            series.forget_ended(turns)
    except Exception:
        set_of.cache_clear()  # what was made in that transaction is not there
        raise


def write_turns(now: float) -> tuple[set[UUID], dict[UUID, float]]:
    """The series whose turn it was, and up to when each that had anything is written."""
    global _advanced
    seconds = range(
        math.floor(now) if math.isnan(_advanced) else math.floor(_advanced) + 1, math.floor(now) + 1
    )[-3600:]
    turns = {(second, i) for second in seconds for i in series.whose_turn(second)}
    whose, last_seconds = {i for _, i in turns}, dict[UUID, float]()
    Chunk.objects.bulk_create([c for i in unhurried(whose) for c in written(i, now, last_seconds)])
    for finer, tier in itertools.pairwise(TIERS):
        ids = {i for second, i in turns if (second - i.int) % tier.chunk_seconds == 0}
        Chunk.objects.bulk_create(
            [c for i in unhurried(ids) for c in compacted(i, finer, tier, now)]
        )
    for tier, coarser in zip(TIERS, (*TIERS[1:], None), strict=True):
        expire(tier, coarser, now)
    _advanced = now
    return whose, last_seconds


def unhurried(ids: Collection[UUID]) -> Iterator[UUID]:
    """A few at a time: to pack a hundred and more of them in one go takes the interpreter from whoever waits for a grant."""
    pause_seconds = SPREAD_SECONDS * AT_ONCE / max(len(ids), AT_ONCE)
    for n, series_id in enumerate(ids):
        if n and n % AT_ONCE == 0:
            time.sleep(pause_seconds)
        yield series_id


def written(series_id: UUID, before: float, last_seconds: dict[UUID, float]) -> list[Chunk]:
    """Of what is not written yet; adds up to when it goes."""
    stretches = series.until(series_id, before)
    if stretches:
        last_seconds[series_id] = float(stretches[-1].seconds[-1])
    return [chunk_of(series_id, TIERS[0], p) for p in stretches]


def write_everything() -> None:
    """At the end of the process: nothing that was acknowledged is lost."""
    last_seconds = dict[UUID, float]()
    with _writing:
        with transaction.atomic(using=router.db_for_write(Chunk)):
            Chunk.objects.bulk_create(
                [c for i in series.known() for c in written(i, math.inf, last_seconds)]
            )
        series.drop(last_seconds)


def compacted(series_id: UUID, finer: Tier, tier: Tier, now: float) -> list[Chunk]:
    """The stretches of the coarser tier that are over and were not made yet: also those that ended while no appliance ran."""
    earliest = edge("MIN", series_id, finer)
    if earliest is None:
        return []
    begin = (
        math.floor(max(compacted_until(series_id, tier), earliest) / tier.chunk_seconds)
        * tier.chunk_seconds
    )
    until = math.floor((now - margin(finer)) / tier.chunk_seconds) * tier.chunk_seconds
    points = rollups.rolled(stored(series_id, finer, begin, until), tier.resolution_seconds)
    stretches = (
        points.between(s, s + tier.chunk_seconds) for s in range(begin, until, tier.chunk_seconds)
    )
    return [chunk_of(series_id, tier, p) for p in stretches if len(p)]


def margin(finer: Tier) -> int:
    """So late the finer tier is complete: its own chunk, and what it waits for."""
    return sum(2 * t.chunk_seconds for t in TIERS[: TIERS.index(finer) + 1])


def edge(which: str, series_id: UUID, tier: Tier) -> int | None:
    """Where the stored chunks of a tier begin. Asked for every series now and then, and Django takes ten times as long as the database."""
    connection = connections[router.db_for_read(Chunk)]
    key = series_id if connection.features.has_native_uuid_field else series_id.hex
    with connection.cursor() as cursor:
        cursor.execute(EDGE.format(which=which), [key, tier.resolution_seconds])
        found: int | None = cursor.fetchone()[0]
    return found


EDGE = f"SELECT {{which}}(start_seconds) FROM {Chunk._meta.db_table} WHERE series_id = %s AND resolution_seconds = %s"  # noqa: S608 - names of ours


def compacted_until(series_id: UUID, tier: Tier) -> float:
    """The end of its last chunk; -inf when it has none."""
    last = edge("MAX", series_id, tier)
    return (
        -math.inf
        if last is None
        else math.floor(last / tier.chunk_seconds + 1) * tier.chunk_seconds
    )


def stored(series_id: UUID, tier: Tier, since: float, until: float) -> Points:
    """What lies on disk of one tier; since <= time < until."""
    earliest = int(max(since - 2 * tier.chunk_seconds, 0))
    rows = Chunk.objects.filter(
        series_id=series_id, resolution_seconds=tier.resolution_seconds, start_seconds__gte=earliest
    )
    if not math.isinf(until):
        rows = rows.filter(start_seconds__lt=math.ceil(until))
    chunks = [
        rollups.unpacked(bytes(data), names_of(set_id), raw=not tier.resolution_seconds)
        for set_id, data in rows.order_by("start_seconds", "pk").values_list(
            "metric_set_id", "data"
        )
    ]
    return rollups.joined(chunks).between(since, until)


def expire(tier: Tier, coarser: Tier | None, now: float) -> None:
    """Drops what is old. A series that ended, or was last heard of by an earlier process, is rolled up only here."""
    old = Chunk.objects.filter(
        resolution_seconds=tier.resolution_seconds,
        start_seconds__lt=int(now - tier.kept_seconds - tier.chunk_seconds),
    )
    rows = list(old.order_by("start_seconds").values_list("pk", "series_id")[:EXPIRE_ROWS])
    if not rows:
        return
    if coarser is not None:
        quiet = {series_id for _, series_id in rows}.difference(series.known())
        Chunk.objects.bulk_create([c for i in quiet for c in compacted(i, tier, coarser, now)])
    for n in range(0, len(rows), 500):
        Chunk.objects.filter(pk__in=[pk for pk, _ in rows[n : n + 500]]).delete()


def points(series_id: UUID, tier: Tier, since: float, until: float) -> Points:
    """Of one resolution: what lies on disk, and after it what the finer tiers know already."""
    if tier is TIERS[0]:
        memory = series.open_points(
            series_id
        )  # before the disk: what is written meanwhile is then in both, not in neither
        disk = stored(series_id, tier, since, until)
        newer = memory.between(max(since, disk.seconds[-1] + 1e-6 if len(disk) else since), until)
        return rollups.joined([disk, newer])
    done = max(since, compacted_until(series_id, tier))
    finer = TIERS[TIERS.index(tier) - 1]
    return rollups.joined(
        [
            stored(series_id, tier, since, min(done, until)),
            rollups.rolled(points(series_id, finer, done, until), tier.resolution_seconds),
        ]
    )


def tier_for(since: float, until: float, now: float, resolution_seconds: int | None) -> Tier:
    """The one that was asked for, or the finest that is kept so long and gives about a thousand points."""
    if resolution_seconds is not None:
        tier = next((t for t in TIERS if t.resolution_seconds == resolution_seconds), None)
        if tier is None:
            raise ApplianceError(
                Code.INVALID,
                f"resolution_seconds must be one of {', '.join(str(t.resolution_seconds) for t in TIERS)}.",
            )
        if (until - since) / max(tier.resolution_seconds, 1) > MAX_POINTS:
            raise ApplianceError(
                Code.INVALID,
                f"That would be more than {MAX_POINTS} points; ask for less time or a coarser resolution_seconds.",
            )
        return tier
    fitting: Iterable[Tier] = (
        t
        for t in TIERS
        if now - since <= t.kept_seconds
        and (until - since) / max(t.resolution_seconds, 1) <= 4 * WANTED_POINTS
    )
    return next(iter(fitting), TIERS[-1])
