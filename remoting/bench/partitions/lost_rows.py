"""Rows "throughput lost" and "capped alone" of `./bench partitions`: turns beside no turns.

A tenant that is alone without a cap takes no turns, and is no measure of short kernels: its session
server polls for the end of work, which takes processor time from a software GPU on a small machine.
Two tenants that take turns completed a quarter more with kernels of 20 us. So a capped tenant is
compared with two tenants that take turns. What turns lose is counted from the better one of a
tenant without turns and a tenant that has all turns. What a tenant loses beside an idle one is
counted from the better one of a tenant without turns and of tenants that take turns, which lose
more than it should: so a loss shows with short kernels as well. All run in slices of one
measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from remoting.bench.partitions.rows import Row, row
from remoting.bench.partitions.share_rows import (
    CAPPED_PERCENT,
    LOST_PERCENT,
    SHARE_ERROR_POINTS,
    loads_of,
)
from remoting.bench.partitions.slices import COUNT, LENGTH, Slices, alternate
from remoting.bench.partitions.tenants import MEMORY_BYTES, Bench, tenants

CAPPED = "capped"
TOGETHER, ALL_TURNS, NO_TURNS = "in turns", "one with all turns", "one without turns"


def capped_slices(bench: Bench, kind: str) -> dict[str, Slices]:
    """Return the slices of a capped tenant, two tenants in turns, and one without turns."""
    node, load = bench.node, loads_of(bench, kind)
    environments = node.share([50, 50], MEMORY_BYTES)
    environments.append(node.add_share(CAPPED_PERCENT, MEMORY_BYTES, "capped", gpu=1))
    environments.append(node.add_share(100, MEMORY_BYTES, "exclusive", gpu=2))
    with tenants(node, bench.program, environments, [load] * len(environments)) as running:
        sets = {TOGETHER: running[:2], CAPPED: running[2:3], NO_TURNS: running[3:]}
        return dict(zip(sets, alternate(bench, running, list(sets.values())), strict=True))


def capped_row(bench: Bench, kind: str) -> Row:
    length = f"{COUNT} slices of {LENGTH * bench.seconds:g} s"
    title = f"share error, {length}: {CAPPED_PERCENT} capped alone, {kind}"
    return row_of_capped(title, capped_slices(bench, kind))


def row_of_capped(title: str, slices: Mapping[str, Slices]) -> Row:
    """Return how far what a capped tenant completes is from its percent of two in turns."""
    got = {name: 100 * slices[CAPPED].of(slices[name]) for name in (TOGETHER, NO_TURNS)}
    points = abs(got[TOGETHER] - CAPPED_PERCENT)
    return row(title, "points", points, SHARE_ERROR_POINTS) | details(slices, got)


def lost_slices(bench: Bench, percents: Sequence[int], kind: str) -> dict[str, Slices]:
    """Return the slices of tenants in turns, of the first of them, and of one without turns."""
    node, load = bench.node, loads_of(bench, kind)
    environments = node.share(percents, MEMORY_BYTES)
    environments.append(node.add_share(100, MEMORY_BYTES, "exclusive", gpu=1))
    with tenants(node, bench.program, environments, [load] * len(environments)) as running:
        *sharing, alone = running
        sets = {TOGETHER: sharing, ALL_TURNS: sharing[:1], NO_TURNS: [alone]}
        return dict(zip(sets, alternate(bench, running, list(sets.values())), strict=True))


def lost_rows(bench: Bench, percents: Sequence[int], kind: str) -> Iterator[Row]:
    """Yield what tenants in turns lose, and what the first of two loses if the other is idle."""
    slices = lost_slices(bench, percents, kind)
    yield lost_row(f"throughput lost: {'/'.join(map(str, percents))}, {kind}", slices)
    if len(percents) == 2:
        yield idle_row(f"throughput lost: beside an idle tenant, {kind}", slices)


def lost(slices: Mapping[str, Slices], name: str, *references: str) -> float:
    """Return the percent that a set completes less than the best reference in each round."""
    return 100 * (1 - slices[name].of(*(slices[r] for r in references)))


def lost_row(title: str, slices: Mapping[str, Slices]) -> Row:
    of = {name: lost(slices, TOGETHER, name) for name in (NO_TURNS, ALL_TURNS)}
    return row(title, "%", max(of.values()), LOST_PERCENT) | details(slices, of)


def idle_row(title: str, slices: Mapping[str, Slices]) -> Row:
    of = {name: lost(slices, ALL_TURNS, name) for name in (NO_TURNS, TOGETHER)}
    value = lost(slices, ALL_TURNS, NO_TURNS, TOGETHER)
    return row(title, "%", value, LOST_PERCENT) | details(slices, of)


def details(slices: Mapping[str, Slices], of: Mapping[str, float]) -> Row:
    """Return what shows how good a row is. `of`: its value beside each reference alone."""
    return {
        "of": {name: round(percent, 2) for name, percent in of.items()},
        "spread": {name: round(s.spread, 1) for name, s in slices.items()},
        "busy": {name: [round(percent, 1) for percent in s.busy] for name, s in slices.items()},
    }
