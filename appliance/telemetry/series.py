"""The newest reading and the last minutes of every series, in memory: samples come too often for the database."""

from __future__ import annotations

import math
import threading
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from appliance.telemetry import rollups
from appliance.telemetry.rollups import Points
from appliance.told import in_web, known_to_web

MAX_OPEN_SAMPLES = 600
"""Of one series; the oldest half goes when nobody writes them down."""


class Stretch:
    """Samples with the same metrics, one after the other."""

    __slots__ = ("metrics", "seconds", "values")

    def __init__(self, metrics: tuple[str, ...]) -> None:
        self.metrics = metrics
        self.seconds = array("d")
        self.values = array("d")

    def points(self) -> Points:
        return rollups.samples(self.metrics, self.seconds, self.values)


class Series:
    __slots__ = ("closed", "open")

    def __init__(self) -> None:
        self.open: Stretch | None = None
        self.closed: deque[Stretch] = deque()
        """Of other metrics than now, not written down yet."""

    def add(self, seconds: float, metrics: tuple[str, ...], values: Sequence[float]) -> None:
        stretch = self.open
        if stretch is None or (stretch.metrics is not metrics and stretch.metrics != metrics):
            if stretch is not None:
                self.closed.append(stretch)
            stretch = self.open = Stretch(metrics)
        stretch.seconds.append(seconds)
        stretch.values.extend(values)
        if len(stretch.seconds) > MAX_OPEN_SAMPLES:
            half = len(stretch.seconds) // 2
            del stretch.seconds[:half], stretch.values[: half * len(stretch.metrics)]

    def points(self) -> Points:
        return rollups.joined(
            s.points() for s in (*self.closed, *([self.open] if self.open else []))
        )

    def until(self, before: float) -> list[Points]:
        """What is older, each stretch by itself."""
        stretches = [s.points() for s in self.closed]
        if self.open is not None:
            stretches.append(self.open.points().between(-math.inf, before))
        return [s for s in stretches if len(s)]

    def drop(self, last: float) -> None:
        while self.closed and (not self.closed[0].seconds or self.closed[0].seconds[-1] <= last):
            self.closed.popleft()
        if self.open is not None:
            n = bisect_right(self.open.seconds, last)
            del self.open.seconds[:n], self.open.values[: n * len(self.open.metrics)]


_series: dict[UUID, Series] = {}
TURNS = 60
_by_turn: list[list[UUID]] = [[] for _ in range(TURNS)]
"""Thousands of series must not all be written in the same second: each has its own of every minute."""
_newest: dict[UUID, tuple[tuple[str, ...], Sequence[float]]] = {}
_ended: set[UUID] = set()
_lock = threading.Lock()


@in_web
def record(
    metrics: tuple[str, ...], values_of: Mapping[UUID, Sequence[float]], seconds: float
) -> None:
    """Series id to its newest values, all of the same moment. Whatever is not newer than the last one is dropped: points are in order of time."""
    with _lock:
        for series_id, values in values_of.items():
            series = _series.get(series_id)
            if series is None:
                series = _series[series_id] = Series()
                _by_turn[series_id.int % TURNS].append(series_id)
            if series.open is None or not series.open.seconds or series.open.seconds[-1] < seconds:
                series.add(seconds, metrics, values)
                _newest[series_id] = metrics, values


@known_to_web(dict[str, float])
def newest(series_id: UUID) -> dict[str, float]:
    """Takes no lock: a page of GPUs must not wait for every sample that comes in meanwhile."""
    metrics, values = _newest.get(series_id, ((), ()))
    found = dict(zip(metrics, values, strict=True))
    if math.isnan(sum(found.values())):
        return {m: v for m, v in found.items() if not math.isnan(v)}
    return found


def readings(series_id: UUID, metrics: Sequence[str]) -> tuple[float, ...]:
    """The newest of each of these; 0 where there is none."""
    values = newest(series_id)
    return tuple(values.get(m, 0.0) for m in metrics)


def open_points(series_id: UUID) -> Points:
    """What is not written down yet."""
    with _lock:
        series = _series.get(series_id)
        return series.points() if series else rollups.nothing()


def known() -> list[UUID]:
    with _lock:
        return list(_series)


def whose_turn(second: int) -> list[UUID]:
    with _lock:
        return list(_by_turn[second % TURNS])


def until(series_id: UUID, before: float) -> list[Points]:
    with _lock:
        series = _series.get(series_id)
        return series.until(before) if series else []


def drop(last_seconds: Mapping[UUID, float]) -> None:
    """What is written down, up to and with this second: after the commit, or whoever reads meanwhile would find it nowhere."""
    with _lock:
        for series_id, last in last_seconds.items():
            if series := _series.get(series_id):
                series.drop(last)


@in_web
def end(series_id: UUID) -> None:
    """Nothing more will come: forgotten as soon as it is written down."""
    with _lock:
        if series_id in _series:
            _ended.add(series_id)


def forget_ended(written: Iterable[UUID]) -> None:
    with _lock:
        for series_id in _ended.intersection(written):
            _ended.discard(series_id)
            del _series[series_id]
            _newest.pop(series_id, None)
            _by_turn[series_id.int % TURNS].remove(series_id)
