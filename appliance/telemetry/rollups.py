"""Samples to rollups: mean, least and most of each metric over ever longer steps. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tier:
    resolution_seconds: int
    """0: as it was sent."""
    kept_seconds: int
    chunk_seconds: int
    """What one row holds; a chunk is made of chunks of the tier before."""


TIERS = (
    Tier(0, 3600, 60),
    Tier(10, 24 * 3600, 600),
    Tier(60, 30 * 86400, 3600),
    Tier(3600, 365 * 86400, 86400),
)


@dataclass(frozen=True, slots=True)
class Points:
    """One series over time. Each table has a row a point and a column a metric; a metric that was not read is NaN."""

    metrics: tuple[str, ...]
    seconds: Floats
    """Of the sample, or the beginning of the step."""
    counts: Floats
    """How many readings are in it; a table, too."""
    mean: Floats
    least: Floats
    most: Floats

    def __len__(self) -> int:
        return len(self.seconds)

    def between(self, since: float, until: float) -> Points:
        """since <= time < until."""
        chosen = (self.seconds >= since) & (self.seconds < until)
        return Points(
            self.metrics,
            self.seconds[chosen],
            self.counts[chosen],
            self.mean[chosen],
            self.least[chosen],
            self.most[chosen],
        )


def samples(metrics: Sequence[str], seconds: Sequence[float], values: Sequence[float]) -> Points:
    """Values: one sample after the other."""
    table = np.array(values, dtype=np.float64).reshape(len(seconds), len(metrics))
    return Points(
        tuple(metrics),
        np.array(seconds, dtype=np.float64),
        (~np.isnan(table)).astype(np.float64),
        table,
        table,
        table,
    )


def nothing() -> Points:
    return samples((), (), ())


def joined(parts: Iterable[Points]) -> Points:
    """One after the other in time; a metric that only some of them have is NaN in the others."""
    filled = [p for p in parts if len(p)]
    if not filled:
        return nothing()
    if len(filled) == 1:
        return filled[0]
    metrics = tuple(dict.fromkeys(m for p in filled for m in p.metrics))
    wide = [p if p.metrics == metrics else widened(p, metrics) for p in filled]
    return Points(
        metrics,
        *(
            np.concatenate([getattr(p, name) for p in wide])
            for name in ("seconds", "counts", "mean", "least", "most")
        ),
    )


def widened(p: Points, metrics: tuple[str, ...]) -> Points:
    columns = [metrics.index(m) for m in p.metrics]
    tables = []
    for old, missing in ((p.counts, 0.0), (p.mean, np.nan), (p.least, np.nan), (p.most, np.nan)):
        new = np.full((len(p), len(metrics)), missing)
        new[:, columns] = old
        tables.append(new)
    return Points(metrics, p.seconds, *tables)


def rolled(p: Points, resolution_seconds: int) -> Points:
    """Means weighted by the number of readings. Points must be in order of time."""
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
        np.fmin.reduceat(p.least, starts, axis=0),
        np.fmax.reduceat(p.most, starts, axis=0),
    )


# Bytes of equal weight lie together: readings that hardly change then compress to a tenth.
def packed(p: Points, *, raw: bool) -> bytes:
    tables = (
        [p.seconds[:, None], p.mean]
        if raw
        else [p.seconds[:, None], p.counts, p.mean, p.least, p.most]
    )
    columns = np.ascontiguousarray(np.concatenate(tables, axis=1).T)
    return zlib.compress(columns.view(np.uint8).reshape(-1, 8).T.tobytes(), 1)


def unpacked(data: bytes, metrics: tuple[str, ...], *, raw: bool) -> Points:
    flat = np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(8, -1).T
    width, n = len(metrics), 1 + len(metrics) * (1 if raw else 4)
    table = np.ascontiguousarray(flat).view(np.float64).reshape(n, -1).T
    if raw:
        return Points(
            metrics,
            table[:, 0],
            (~np.isnan(table[:, 1:])).astype(np.float64),
            table[:, 1:],
            table[:, 1:],
            table[:, 1:],
        )
    return Points(
        metrics, table[:, 0], *(table[:, 1 + i * width : 1 + (i + 1) * width] for i in range(4))
    )
