"""Rows "throughput lost" and "capped alone" of `./bench partitions`: turns beside no turns.

A tenant that is alone without a cap takes no turns, and is no measure of short kernels: its session
server polls for the end of work, which takes processor time from a software GPU on a small machine.
Two tenants that take turns completed a quarter more with kernels of 20 us. So a capped tenant is
compared with two tenants that take turns, and what turns lose is counted from the better one of a
tenant without turns and a tenant that has all turns. All run in slices of one measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from remoting.bench.partitions.rows import Row, row
from remoting.bench.partitions.share_rows import (
    CAPPED_PERCENT,
    LOST_PERCENT,
    SHARE_ERROR_POINTS,
    loads_of,
)
from remoting.bench.partitions.slices import Slices, alternate
from remoting.bench.partitions.tenants import MEMORY_BYTES, Bench, tenants


def capped_slices(bench: Bench, kind: str) -> dict[str, Slices]:
    """Return the slices of a capped tenant, two tenants in turns, and one without turns."""
    node, load = bench.node, loads_of(bench, kind)
    environments = node.share([50, 50], MEMORY_BYTES)
    environments.append(node.add_share(CAPPED_PERCENT, MEMORY_BYTES, "capped", gpu=1))
    environments.append(node.add_share(100, MEMORY_BYTES, "exclusive", gpu=2))
    with tenants(node, bench.program, environments, [load] * len(environments)) as running:
        sets = {"in turns": running[:2], "capped": running[2:3], "without turns": running[3:]}
        return dict(zip(sets, alternate(bench, running, list(sets.values())), strict=True))


def capped_row(bench: Bench, kind: str) -> Row:
    """Return how far a capped tenant that is alone exceeds its percent of a whole GPU in turns."""
    slices = capped_slices(bench, kind)
    capped, in_turns = slices["capped"], slices["in turns"]
    got = 100 * capped.of(in_turns)
    return row(
        f"capped alone, {bench.seconds:.0f} s: {CAPPED_PERCENT} %, {kind}",
        "points",
        got - CAPPED_PERCENT,
        SHARE_ERROR_POINTS,
        got=round(got, 2),
        of_one_without_turns=round(100 * capped.of(slices["without turns"]), 2),
        spread={name: round(s.spread, 1) for name, s in slices.items()},
        busy={name: [round(percent, 1) for percent in s.busy] for name, s in slices.items()},
    )


def lost_rows(bench: Bench, percents: Sequence[int], kind: str) -> Iterator[Row]:
    """Yield what tenants in turns lose, and what the first of two loses if the other is idle."""
    node, load = bench.node, loads_of(bench, kind)
    environments = node.share(percents, MEMORY_BYTES)
    environments.append(node.add_share(100, MEMORY_BYTES, "exclusive", gpu=1))
    with tenants(node, bench.program, environments, [load] * len(environments)) as running:
        *sharing, alone = running
        together, all_turns, no_turns = alternate(bench, running, [sharing, sharing[:1], [alone]])
    lost_of = {"one without turns": no_turns, "one with all turns": all_turns}
    lost = {name: 100 * (1 - together.of(slices)) for name, slices in lost_of.items()}
    yield row(
        f"throughput lost: {'/'.join(map(str, percents))}, {kind}",
        "%",
        max(lost.values()),
        LOST_PERCENT,
        of={name: round(percent, 2) for name, percent in lost.items()},
        spread={name: round(slices.spread, 1) for name, slices in lost_of.items()},
    )
    if len(percents) == 2:
        name = f"throughput lost: beside an idle tenant, {kind}"
        yield row(name, "%", 100 * (1 - all_turns.of(no_turns)), LOST_PERCENT)
