"""Recent samples of every series, in memory until `history` writes them to the database.

The series live in the HTTP server's process. Thread-safe. Other processes use no points of series
and do without `rollups`, which imports numpy.
"""

from __future__ import annotations

import math
import threading
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from appliance.db import change_log
from appliance.db.change_log import Topic

if TYPE_CHECKING:
    from appliance.telemetry.rollups import Points

MAX_UNWRITTEN_SAMPLES = 600
"""Per series. If `history` falls behind, the older half is discarded."""
WRITE_SLOTS = 60
"""Seconds of a minute. Each series is written in its own one, to spread thousands of writes."""


class Segment:
    """Consecutive samples of one series with the same metrics."""

    __slots__ = ("metrics", "seconds", "values")

    def __init__(self, metrics: tuple[str, ...]) -> None:
        self.metrics = metrics
        self.seconds = array("d")
        self.values = array("d")

    def points(self) -> Points:
        from appliance.telemetry import rollups

        return rollups.from_samples(self.metrics, self.seconds, self.values)


class Series:
    """The unwritten samples of one object, in order of time."""

    __slots__ = ("closed", "open")

    def __init__(self) -> None:
        self.open: Segment | None = None
        """The segment to which samples are added."""
        self.closed: deque[Segment] = deque()
        """Earlier segments with other metrics."""

    def add(self, seconds: float, metrics: tuple[str, ...], values: Sequence[float]) -> None:
        segment = self.open
        if segment is None or (segment.metrics is not metrics and segment.metrics != metrics):
            if segment is not None:
                self.closed.append(segment)
            segment = self.open = Segment(metrics)
        segment.seconds.append(seconds)
        segment.values.extend(values)
        if len(segment.seconds) > MAX_UNWRITTEN_SAMPLES:
            half = len(segment.seconds) // 2
            del segment.seconds[:half], segment.values[: half * len(segment.metrics)]

    def points(self) -> Points:
        from appliance.telemetry import rollups

        return rollups.concatenate(
            s.points() for s in (*self.closed, *([self.open] if self.open else []))
        )

    def points_before(self, before: float) -> list[Points]:
        """Return the samples older than `before`, one item per segment."""
        segments = [s.points() for s in self.closed]
        if self.open is not None:
            segments.append(self.open.points().between(-math.inf, before))
        return [s for s in segments if len(s)]

    def discard(self, last: float) -> None:
        """Discard the samples up to and including the time `last`."""
        while self.closed and (not self.closed[0].seconds or self.closed[0].seconds[-1] <= last):
            self.closed.popleft()
        if self.open is not None:
            n = bisect_right(self.open.seconds, last)
            del self.open.seconds[:n], self.open.values[: n * len(self.open.metrics)]


_series: dict[UUID, Series] = {}
_by_slot: list[list[UUID]] = [[] for _ in range(WRITE_SLOTS)]
_latest: dict[UUID, tuple[tuple[str, ...], Sequence[float]]] = {}
_ended: set[UUID] = set()
_lock = threading.Lock()


class RemoteSeries(Protocol):
    """The process that keeps samples, as others see it."""

    def send_samples(
        self,
        metrics: tuple[str, ...],
        values: Mapping[UUID, Sequence[float]],
        seconds: float,
    ) -> None: ...

    def latest_metrics(self, series_id: UUID) -> dict[str, float]: ...

    def values_beyond(
        self, metric: str, threshold: float, above: bool
    ) -> Mapping[UUID, float] | None: ...


_remote: RemoteSeries | None = None


def use_remote(remote: RemoteSeries | None) -> None:
    """Let this process record and read samples in another one."""
    global _remote
    _remote = remote


def record(
    metrics: tuple[str, ...], values_by_series: Mapping[UUID, Sequence[float]], seconds: float
) -> None:
    """Add one sample to each series, all of the same time.

    A sample that is not newer than the series' latest one is dropped.
    """
    if _remote is not None:
        _remote.send_samples(metrics, values_by_series, seconds)
        return
    with _lock:
        for series_id, values in values_by_series.items():
            series = _series.get(series_id)
            if series is None:
                series = _series[series_id] = Series()
                _by_slot[series_id.int % WRITE_SLOTS].append(series_id)
            if series.open is None or not series.open.seconds or series.open.seconds[-1] < seconds:
                series.add(seconds, metrics, values)
                _latest[series_id] = metrics, values


def latest_metrics(series_id: UUID) -> dict[str, float]:
    """Return the latest value of each metric, without metrics that have none.

    Takes no lock, so that a page of GPUs does not wait for incoming samples. The controller
    requests them from the HTTP server, which keeps the samples, and blocks for the reply.
    """
    if _remote is not None:
        return _remote.latest_metrics(series_id)
    metrics, values = _latest.get(series_id, ((), ()))
    found = dict(zip(metrics, values, strict=True))
    if math.isnan(sum(found.values())):
        return {m: v for m, v in found.items() if not math.isnan(v)}
    return found


def values_beyond(metric: str, threshold: float, *, above: bool) -> Mapping[UUID, float] | None:
    """Return the latest values above or below the threshold, in one pass over all series.

    None if the process that keeps the samples does not reply.
    """
    if _remote is not None:
        return _remote.values_beyond(metric, threshold, above)
    found = {}
    positions: dict[tuple[str, ...], int] = {}
    for series_id, (metrics, values) in list(_latest.items()):
        if (at := positions.get(metrics)) is None:
            at = positions[metrics] = metrics.index(metric) if metric in metrics else -1
        if at >= 0 and (values[at] > threshold if above else values[at] < threshold):
            found[series_id] = values[at]
    return found


def latest_values(series_id: UUID, metrics: Sequence[str]) -> tuple[float, ...]:
    """Return the latest value of each of these metrics; 0 for a missing one."""
    values = latest_metrics(series_id)
    return tuple(values.get(m, 0.0) for m in metrics)


def unwritten_points(series_id: UUID) -> Points:
    from appliance.telemetry import rollups

    with _lock:
        series = _series.get(series_id)
        return series.points() if series else rollups.empty()


def unwritten_points_before(series_id: UUID, before: float) -> list[Points]:
    """Return the unwritten samples older than `before`, one item per set of metrics."""
    with _lock:
        series = _series.get(series_id)
        return series.points_before(before) if series else []


def series_ids() -> list[UUID]:
    with _lock:
        return list(_series)


def ids_of_slot(second: int) -> list[UUID]:
    """Return the series that are written in this second of the minute."""
    with _lock:
        return list(_by_slot[second % WRITE_SLOTS])


def discard_written(last_seconds: Mapping[UUID, float]) -> None:
    """Discard the samples of each series up to and including its time in `last_seconds`.

    Call after the commit that stores them, so that a concurrent reader finds each sample.
    """
    with _lock:
        for series_id, last in last_seconds.items():
            if series := _series.get(series_id):
                series.discard(last)


def end(series_id: UUID) -> None:
    """Mark a series as complete. It is removed from memory after its last samples are written."""
    with _lock:
        if series_id in _series:
            _ended.add(series_id)


def remove_ended(written_ids: Iterable[UUID]) -> None:
    """Remove those of the written series that have ended."""
    with _lock:
        for series_id in _ended.intersection(written_ids):
            _ended.discard(series_id)
            del _series[series_id]
            _latest.pop(series_id, None)
            _by_slot[series_id.int % WRITE_SLOTS].remove(series_id)


change_log.subscribe(lambda change: end(change.object_id), Topic.SERIES_END)
