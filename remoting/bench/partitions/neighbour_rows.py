"""Rows "steps beside" of `./bench partitions`: a tenant of 50 % beside a hostile neighbour.

A step is a batch of kernels that takes 25 turns of the tenant. Its fair time is the median of the
steps beside a well-behaved neighbour with the same share: so it has the same turns, and begins and
ends anywhere in a round. All neighbours are programs of one allocation, and run in slices.

Beside a well-behaved neighbour the tenant gets the part of the GPU that it has a share of: a step
takes twice as long as with the whole GPU. Without this row, a part that it loses beside each
neighbour alike would show nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from remoting.bench.partitions.rows import Row, milliseconds, quantile, row
from remoting.bench.partitions.slices import resume, stop
from remoting.bench.partitions.steps import Steps, seconds_of
from remoting.bench.partitions.tenants import MEMORY_BYTES, Bench, Load, Tenant, tenants

PERCENT = 50
STEP_US, KERNEL_US = 250_000.0, 1000.0
SLICES = 6
"""Of each neighbour, as long as other rows: 110 steps, of which the 99th percentile is not the
slowest one."""
ALONE_SECONDS = 2.0
TARGET = 1.1
SHARE_TARGET = 1.05
COPY_BYTES = 16 << 20


def neighbours(bench: Bench) -> dict[str, Load]:
    return {
        "endless launches": bench.load(5.0),
        "huge grids": bench.load(20.0, 80.0, ["blocks=2000"]),
        "copies": Load(1, 256, (f"copies={COPY_BYTES}",)),
    }


FAIR = "a well-behaved neighbour"
ALONE = "none"


def steps_beside(
    bench: Bench, hostile: Mapping[str, Load], slices: int = SLICES
) -> dict[str, list[float]]:
    """Return the seconds of the steps beside each neighbour, a well-behaved one, and none."""
    own, theirs = bench.node.share([PERCENT] * 2, MEMORY_BYTES)
    loads = {FAIR: bench.load(KERNEL_US)} | dict(hostile)
    victim = bench.load(KERNEL_US, STEP_US, ["times"])
    environments = [own, *[theirs] * len(loads)]
    with tenants(bench.node, bench.program, environments, [victim, *loads.values()]) as running:
        stepping, *others = running
        steps = Steps(stepping.process)
        kinds: dict[str, list[Tenant]] = {ALONE: []} | {
            name: [t] for name, t in zip(loads, others, strict=True)
        }
        found: dict[str, list[float]] = {name: [] for name in kinds}
        for name in list(kinds) * slices:
            stop(bench.node, others)
            resume(kinds[name])
            time.sleep(2 * STEP_US / 1e6)
            seconds = ALONE_SECONDS if name == ALONE else bench.seconds
            found[name] += seconds_of(steps.during(seconds))
    return found


def neighbour_rows(bench: Bench) -> list[Row]:
    return step_rows(steps_beside(bench, neighbours(bench)))


def step_rows(found: Mapping[str, list[float]]) -> list[Row]:
    """Return the row of the share, and one of each hostile neighbour."""
    hostile = [name for name in found if name not in (ALONE, FAIR)]
    return [fair_row(found), *(hostile_row(name, found[name], found[FAIR]) for name in hostile)]


def of_steps_alone(found: Mapping[str, list[float]]) -> float:
    """Return the median step beside a well-behaved neighbour, of its time by the share."""
    return quantile(found[FAIR], 0.5) / (quantile(found[ALONE], 0.5) * 100 / PERCENT)


def fair_row(found: Mapping[str, list[float]]) -> Row:
    return row(
        f"p50 step of {PERCENT} % beside {FAIR}, of {100 // PERCENT} steps alone",
        "x",
        of_steps_alone(found),
        SHARE_TARGET,
        median_ms=milliseconds(found[FAIR], 0.5),
        alone_ms=milliseconds(found[ALONE], 0.5),
        steps=[len(found[ALONE]), len(found[FAIR])],
    )


def hostile_row(name: str, found: list[float], beside_fair: list[float]) -> Row:
    return row(
        f"p99 step beside {name}, of its fair time",
        "x",
        quantile(found, 0.99) / quantile(beside_fair, 0.5),
        TARGET,
        fair_ms=milliseconds(beside_fair, 0.5),
        fair_p99_ms=milliseconds(beside_fair, 0.99),
        median_ms=milliseconds(found, 0.5),
        steps=[len(beside_fair), len(found)],
    )
