"""Rows "steps beside" of `./bench partitions`: a tenant of 50 % beside a hostile neighbour.

A step is a batch of kernels that takes 25 turns of the tenant. Its fair time is the time that it
takes with the whole GPU, divided by the share.
"""

from __future__ import annotations

import time

from remoting.bench.partitions.resize_rows import Steps
from remoting.bench.partitions.rows import Row, quantile, row
from remoting.bench.partitions.tenants import MEMORY_BYTES, Bench, Load, ready

PERCENT = 50
STEP_US, KERNEL_US = 250_000.0, 1000.0
PERIODS = 3
"""The steps are measured for so many times the seconds of other rows."""
TARGET = 1.1
COPY_BYTES = 16 << 20


def neighbours(bench: Bench) -> dict[str, Load]:
    return {
        "endless launches": bench.load(5.0),
        "huge grids": bench.load(20.0, 80.0, ["blocks=2000"]),
        "copies": Load(1, 256, (f"copies={COPY_BYTES}",)),
    }


def steps_of(bench: Bench, victim: Load, hostile: Load | None) -> list[float]:
    """Return the seconds of each step of the victim. Blocks for the seconds of the benchmark."""
    percents, modes = ([PERCENT] * 2, ["shared"] * 2) if hostile else ([100], ["exclusive"])
    environments = bench.node.share(percents, MEMORY_BYTES, modes)
    with ready(bench.program, environments[0], victim) as process:
        steps = Steps(process)
        if not hostile:
            return steps.during(bench.seconds)
        with ready(bench.program, environments[1], hostile):
            time.sleep(2 * STEP_US / 1e6)
            return steps.during(PERIODS * bench.seconds)


def neighbour_rows(bench: Bench) -> list[Row]:
    victim = bench.load(KERNEL_US, STEP_US, ["times"])
    rows = []
    for name, hostile in neighbours(bench).items():
        fair = quantile(steps_of(bench, victim, None), 0.5) * 100 / PERCENT
        found = steps_of(bench, victim, hostile)
        rows.append(
            row(
                f"p99 step beside {name}, of its fair time",
                "x",
                quantile(found, 0.99) / fair,
                TARGET,
                fair_ms=round(1000 * fair, 1),
                median_ms=round(1000 * quantile(found, 0.5), 1),
                steps=len(found),
            )
        )
    return rows
