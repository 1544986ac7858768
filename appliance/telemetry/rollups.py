"""Aggregation of samples: mean, minimum and maximum of each metric per time step.

Pure functions without I/O.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Points:
    """Points of one series in order of time.

    Each table has one row per point and one column per metric. A missing value is NaN.
    """

    metrics: tuple[str, ...]
    seconds: Floats
    """Unix time of the sample, or of the beginning of the step. One-dimensional."""
    counts: Floats
    """Table of the number of samples in each value."""
    mean: Floats
    minimum: Floats
    maximum: Floats

    def __len__(self) -> int:
        return len(self.seconds)

    def between(self, since: float, until: float) -> Points:
        """Return the points with since <= time < until."""
        chosen = (self.seconds >= since) & (self.seconds < until)
        return Points(
            self.metrics,
            self.seconds[chosen],
            self.counts[chosen],
            self.mean[chosen],
            self.minimum[chosen],
            self.maximum[chosen],
        )


def from_samples(
    metrics: Sequence[str], seconds: Sequence[float], values: Sequence[float]
) -> Points:
    """Build points from samples. `values` holds all values of the first sample, then the next."""
    table = np.array(values, dtype=np.float64).reshape(len(seconds), len(metrics))
    return Points(
        tuple(metrics),
        np.array(seconds, dtype=np.float64),
        (~np.isnan(table)).astype(np.float64),
        table,
        table,
        table,
    )


def empty() -> Points:
    return from_samples((), (), ())


def concatenate(parts: Iterable[Points]) -> Points:
    """Concatenate points in order of time. A metric that a part lacks is NaN there."""
    filled = [p for p in parts if len(p)]
    if not filled:
        return empty()
    if len(filled) == 1:
        return filled[0]
    metrics = tuple(dict.fromkeys(m for p in filled for m in p.metrics))
    wide = [p if p.metrics == metrics else with_metrics(p, metrics) for p in filled]
    return Points(
        metrics,
        *(
            np.concatenate([getattr(p, name) for p in wide])
            for name in ("seconds", "counts", "mean", "minimum", "maximum")
        ),
    )


def with_metrics(p: Points, metrics: tuple[str, ...]) -> Points:
    """Return the points with these metrics, a superset of theirs, in this order."""
    columns = [metrics.index(m) for m in p.metrics]
    missing_values = (
        (p.counts, 0.0),
        (p.mean, np.nan),
        (p.minimum, np.nan),
        (p.maximum, np.nan),
    )
    tables = []
    for old, missing in missing_values:
        new = np.full((len(p), len(metrics)), missing)
        new[:, columns] = old
        tables.append(new)
    return Points(metrics, p.seconds, *tables)


def roll_up(p: Points, resolution_seconds: int) -> Points:
    """Aggregate points to steps of this length. Means are weighted by the number of samples.

    The points must be in order of time. Returns them unchanged for a resolution of 0.
    """
    if not len(p) or not resolution_seconds:
        return p
    steps = np.floor(p.seconds / resolution_seconds) * resolution_seconds
    starts = np.flatnonzero(np.concatenate(([True], steps[1:] != steps[:-1])))
    counts = np.add.reduceat(p.counts, starts, axis=0)
    total = np.add.reduceat(np.nan_to_num(p.mean, nan=0.0) * p.counts, starts, axis=0)
    mean = np.divide(total, counts, out=np.full_like(total, np.nan), where=counts > 0)
    return Points(
        p.metrics,
        steps[starts],
        counts,
        mean,
        np.fmin.reduceat(p.minimum, starts, axis=0),
        np.fmax.reduceat(p.maximum, starts, axis=0),
    )


def pack(p: Points, *, raw: bool) -> bytes:
    """Compress points. With `raw`, only times and means are stored, because each count is 1.

    The bytes of equal significance are stored together, so that values which hardly change
    compress to a tenth.
    """
    tables = (
        [p.seconds[:, None], p.mean]
        if raw
        else [p.seconds[:, None], p.counts, p.mean, p.minimum, p.maximum]
    )
    columns = np.ascontiguousarray(np.concatenate(tables, axis=1).T)
    return zlib.compress(columns.view(np.uint8).reshape(-1, 8).T.tobytes(), 1)


def unpack(data: bytes, metrics: tuple[str, ...], *, raw: bool) -> Points:
    """Reverse `pack`. `metrics` and `raw` must be those of the packed points."""
    flat = np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(8, -1).T
    width, n = len(metrics), 1 + len(metrics) * (1 if raw else 4)
    table = np.ascontiguousarray(flat).view(np.float64).reshape(n, -1).T
    if raw:
        values = table[:, 1:]
        counts = (~np.isnan(values)).astype(np.float64)
        return Points(metrics, table[:, 0], counts, values, values, values)
    return Points(
        metrics, table[:, 0], *(table[:, 1 + i * width : 1 + (i + 1) * width] for i in range(4))
    )
