"""Row "share error, 1 s" of `./bench partitions`: the worst second."""

from __future__ import annotations

from collections.abc import Sequence

from remoting.bench.partitions.rows import Row, quantile, row
from remoting.bench.partitions.share_rows import errors, loads_of, percents_of
from remoting.bench.partitions.tenants import Bench, Sample, Tenant, difference, samples

SAMPLE_MS = 100
SECOND_POINTS = 2.0


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


def window_row(bench: Bench, percents: Sequence[int], kind: str) -> Row:
    """Return the error of the worst second, and of the worst sample, which is of ten turns only."""
    size = len(percents)
    loads = [loads_of(bench, kind)] * size
    count = round(bench.seconds * 1000 / SAMPLE_MS) + 1
    with bench.running(percents, ["shared"] * size, loads) as running:
        found = samples(bench.node, count, SAMPLE_MS)
    seconds = window_errors(found, running, percents, 1000 // SAMPLE_MS)
    return row(
        f"share error, 1 s: {'/'.join(map(str, percents))}, {kind}",
        "points",
        max(seconds),
        SECOND_POINTS,
        median=round(quantile(seconds, 0.5), 2),
        periods=len(seconds),
        worst_sample=round(max(window_errors(found, running, percents, 1)), 2),
    )
