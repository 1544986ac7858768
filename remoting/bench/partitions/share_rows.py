"""Rows "share error" of `./bench partitions`: what each tenant completed beside its share.

The error of a row is the largest distance of a tenant from its share, in points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from remoting.bench.partitions.rows import Row, row
from remoting.bench.partitions.tenants import BATCH_US, MIN_BATCH, Bench, Load

SHARES = ((10, 90), (30, 70), (50, 50), (25, 25, 50), (15, 35, 20, 30))
KERNELS_US = {"20 us": 20.0, "2 ms": 2000.0, "50 ms": 50_000.0}
WIDE_BLOCKS, GRAPH_KERNELS = 64, 32
SHARE_ERROR_POINTS = 1.0
LOST_PERCENT = 2.0
CAPPED_PERCENT = 30
BURST_PERCENT, BURST_EVERY_MS, BURST_KERNEL_US = 20, 200, 500.0
PAUSED_PERCENT, PAUSED_EVERY_MS, PAUSED_WORK_MS = 90, 13, 10
MIXED_US, MIXED_BATCH, MIXED_LONG = 8.0, 3100, 100
SETTLE, MIXED_SETTLE = 0.5, 6.0
"""Times the seconds of the measurement: the first tenant pays for what it submitted alone."""
THIRDS_EVERY_MS, THIRDS_SPEEDUP = 60, 2.5


def loads_of(bench: Bench, kind: str) -> Load:
    """Return the work of a tenant that always has some.

    Kernels have one block, except those of wide grids.
    """
    if kind == "wide grids":
        return bench.load(20.0, BATCH_US / WIDE_BLOCKS, [f"blocks={WIDE_BLOCKS}"])
    if kind == "graphs":
        return bench.load(20.0, options=[f"graph={GRAPH_KERNELS}"])
    return bench.load(KERNELS_US[kind])


def errors(got: Sequence[float], shares: Sequence[float]) -> float:
    return max(abs(g - s) for g, s in zip(got, shares, strict=True))


def percents_of(work: Sequence[float]) -> list[float]:
    return [100 * w / sum(work) for w in work]


def of_shares(
    bench: Bench, title: str, percents: Sequence[int], modes: Sequence[str], kind: str
) -> Row:
    """Return the share error of tenants with equal kernels.

    `busy`: the percent of the time of all kernels that each had. It differs from what it completed
    if its kernels were slower than those of the others.
    """
    load = loads_of(bench, kind)
    work = bench.work(percents, modes, [load] * len(percents), SETTLE)
    got = percents_of([w.blocks for w in work])
    return row(
        f"share error, {bench.seconds:.0f} s: {title}, {kind}",
        "points",
        errors(got, percents),
        SHARE_ERROR_POINTS,
        got=[round(g, 2) for g in got],
        busy=[round(b, 2) for b in percents_of([w.busy_nanoseconds for w in work])],
    )


def share_row(bench: Bench, percents: Sequence[int], kind: str) -> Row:
    return of_shares(
        bench, "/".join(map(str, percents)), percents, ["shared"] * len(percents), kind
    )


def beside_shared_row(bench: Bench, mode: str, kind: str) -> Row:
    """Return the share error of a capped or guaranteed tenant beside a shared one."""
    percents = [CAPPED_PERCENT, 100 - CAPPED_PERCENT]
    title = f"{percents[0]} {mode} beside {percents[1]} shared"
    return of_shares(bench, title, percents, [mode, "shared"], kind)


def mixed_lengths_rows(bench: Bench, shares: Sequence[Sequence[int]]) -> Iterator[Row]:
    """Yield the share errors of kernels of two lengths beside short ones.

    Between short kernels the GPU is idle for a part of the turn. So what a tenant completes is
    compared with what two of its kind complete together, both in time of kernels. One that is alone
    is no measure: it takes no turns, and its session server polls for the end of its work. The
    measurements begin when the longest kernels are known, and the work that was submitted before
    the neighbour came is paid.
    """
    loads = [bench.load(MIXED_US, MIXED_US * MIXED_BATCH, [f"long={MIXED_LONG}"])]
    loads.append(bench.load(MIXED_US))
    pairs = [bench.work([50, 50], ["shared"] * 2, [x] * 2, SETTLE) for x in loads]
    wholes = [sum(w.nanoseconds for w in pair) for pair in pairs]
    for percents in shares:
        work = bench.work(percents, ["shared"] * 2, loads, settle=MIXED_SETTLE)
        got = percents_of([w.nanoseconds / whole for w, whole in zip(work, wholes, strict=True)])
        name = f"share error, {bench.seconds:.0f} s: {'/'.join(map(str, percents))}, 8 us and 20 ms"
        points = errors(got, percents)
        yield row(f"{name} beside 8 us", "points", points, SHARE_ERROR_POINTS, got=got)


def bursty_row(bench: Bench) -> Row:
    """Return the share error of bursts that need less than their share beside a steady tenant."""
    burst_us = BURST_EVERY_MS * 10.0 * BURST_PERCENT
    bursts = bench.load(BURST_KERNEL_US, burst_us, [f"every={BURST_EVERY_MS}"])
    loads = [bursts, loads_of(bench, "2 ms")]
    work = bench.rounds_per_second([50, 50], ["shared"] * 2, loads)
    demand = bursts.rounds * bursts.batch * 1000 / BURST_EVERY_MS
    missed = 100 * abs(work[0] - demand) / sum(work)
    name = f"bursts of {BURST_PERCENT} % with a share of 50 % beside a steady one"
    return row(name, "points", missed, SHARE_ERROR_POINTS, got=percents_of(work))


def pauses_row(bench: Bench, kind: str) -> Row:
    """Return what a tenant with short pauses, which needs less than its share, gets too little."""
    kernel_us = PAUSED_WORK_MS * 1000 / MIN_BATCH
    paused = bench.load(kernel_us, PAUSED_WORK_MS * 1000.0, [f"every={PAUSED_EVERY_MS}"])
    percents = [PAUSED_PERCENT, 100 - PAUSED_PERCENT]
    (alone,) = bench.rounds_per_second([100], ["exclusive"], [paused])
    work = bench.rounds_per_second(percents, ["shared"] * 2, [paused, loads_of(bench, kind)])
    lacks = 100 * (1 - work[0] / alone)
    name = f"pauses of {PAUSED_EVERY_MS - PAUSED_WORK_MS} ms with a share of {PAUSED_PERCENT} %"
    return row(f"{name} beside {kind}", "%", lacks, LOST_PERCENT, got=work, alone=alone)


def thirds_row(bench: Bench) -> Row:
    """Return the time of three programs that use a third each, of that one after another."""
    third_us = THIRDS_EVERY_MS * 1000.0 / 3
    load = bench.load(BURST_KERNEL_US, third_us, [f"every={THIRDS_EVERY_MS}"])
    (alone,) = bench.rounds_per_second([100], ["exclusive"], [load])
    together = sum(bench.rounds_per_second([33] * 3, ["shared"] * 3, [load] * 3))
    name = "three programs that use a third each, time together of one after another"
    return row(name, "x", alone / together, 1 / THIRDS_SPEEDUP, together=together, alone=alone)
