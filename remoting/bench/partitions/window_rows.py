"""Rows "share error, 1 s" and "100 ms" of `./bench partitions`: the worst of all such periods."""

from __future__ import annotations

from collections.abc import Sequence

from remoting.bench.partitions.rows import Row, quantile, row
from remoting.bench.partitions.share_rows import KERNELS_US, errors, loads_of, percents_of
from remoting.bench.partitions.tenants import Bench, Sample, Tenant, difference, samples

SAMPLE_MS = 100
TURN_MS = 10.0
SECOND_POINTS = 2.0
SHORT_POINTS = 3.0
"""At 100 ms a unit and a turn may be more than this; then they are the target."""


def window_errors(
    found: Sequence[Sample], running: Sequence[Tenant], percents: Sequence[int], length: int
) -> list[float]:
    """Return the share error of each period of so many samples; the periods do not overlap."""
    result = []
    for first in range(0, len(found) - length, length):
        work = difference(found[first], found[first + length], running)
        rounds = [w.blocks * t.rounds for w, t in zip(work, running, strict=True)]
        result.append(errors(percents_of(rounds), percents) if any(rounds) else 100.0)
    return result


def window_rows(bench: Bench, percents: Sequence[int], kind: str) -> list[Row]:
    size = len(percents)
    loads = [loads_of(bench, kind)] * size
    count = round(bench.seconds * 1000 / SAMPLE_MS) + 1
    with bench.running(percents, ["shared"] * size, loads) as running:
        found = samples(bench.node, count, SAMPLE_MS)
    unit_and_turn = (KERNELS_US[kind] / 1000 + TURN_MS) * 100 / SAMPLE_MS
    rows = []
    for name, length, target in (
        ("1 s", 1000 // SAMPLE_MS, SECOND_POINTS),
        ("100 ms", 1, max(SHORT_POINTS, unit_and_turn)),
    ):
        points = window_errors(found, running, percents, length)
        title = f"share error, {name}: {'/'.join(map(str, percents))}, {kind}"
        median = round(quantile(points, 0.5), 2)
        rows.append(row(title, "points", max(points), target, median=median, periods=len(points)))
    return rows
