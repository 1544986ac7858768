"""Rows "resize" of `./bench partitions`: the steps of a tenant while its neighbours are resized.

The tenant has 45 %. Its neighbour has 55 %, shrinks to 35 %, and a third tenant comes with 20 %.
A step is a batch of kernels. It takes about forty turns of all tenants, so that one turn more or
less is 2.5 % of it. Each kernel begins with the result of the last one, so the result of a step
tells whether all before it were right.

The sizes change in several repetitions, and each has four periods: two in which nothing changes,
one with changes, and one after them. Each period has the steps of all repetitions, so that what
slows the machine for a while slows steps of all four. What the second period differs from the first
is the noise of the machine. The other two are compared with both of them. Steps in which the
machine stalled are counted and left out.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from deploy.supervisor import wait_for
from remoting.bench.partitions.rows import Row, milliseconds, quantile, row
from remoting.bench.partitions.stalls import watched_stalls
from remoting.bench.partitions.steps import Span, Steps, overlap, seconds_of, wrong_results
from remoting.bench.partitions.tenants import MEMORY_BYTES, Bench, Load, ready
from tests.remoting.modes import MODES

KEPT, SHRUNK, SMALLER, ADDED = 45, 55, 35, 20
STEP_SECONDS = 0.4
KERNEL_US = 1000.0
REPETITIONS = 4
PERIOD = 1.2
"""Length of a period, in times the seconds of other rows."""
PERIODS = ("before", "unchanged", "during", "after")
RESIZES, LEAST_PERCENT = 100, 5
QUANTILES = {"p50": 0.5, "p99": 0.99}
TARGET = 1.05
CONTROL = (0.97, 1.03)
"""The ratio of two periods without a change, on a quiet machine (docs/benchmarks.md)."""
MOST_STALLED = 3
"""Steps of a row that may be left out. Nothing says how long they would have been."""
SETTLE_SECONDS = 1.0
"""Time after the start and after the third tenant has left, before steps count."""
FREE_SECONDS = 60


@contextmanager
def third_tenant(bench: Bench, load: Load, memory_bytes: int) -> Iterator[None]:
    """Shrink the neighbour and run a third tenant, which comes when the memory is free."""
    node = bench.node
    node.resize(1, SMALLER, memory_bytes)
    log = node.folder / "launcher.log"
    wait_for("the neighbour's memory", lambda: not node.control.sessions().over, log, FREE_SECONDS)
    with ready(bench.program, node.add_share(ADDED, memory_bytes), load):
        yield
    node.remove_share()
    node.resize(1, SHRUNK, memory_bytes)


@dataclass(frozen=True)
class Neighbours:
    """Tenants whose sizes change for some seconds."""

    bench: Bench
    load: Load
    seconds: float
    rng: random.Random


@contextmanager
def changed_in_turn(neighbours: Neighbours) -> Iterator[None]:
    """Let the third tenant come and go, and come again."""
    bench, load, seconds = neighbours.bench, neighbours.load, neighbours.seconds
    with third_tenant(bench, load, MEMORY_BYTES):
        time.sleep(seconds / 2)
    time.sleep(seconds / 2)
    with third_tenant(bench, load, MEMORY_BYTES):
        yield


@contextmanager
def changed_at_random(neighbours: Neighbours) -> Iterator[None]:
    """Give the two neighbours other parts of 55 % and of the memory again and again."""
    bench, rng, present = neighbours.bench, neighbours.rng, SMALLER
    count = RESIZES // REPETITIONS
    with third_tenant(bench, neighbours.load, MEMORY_BYTES):
        for n in range(count):
            percent = rng.randint(LEAST_PERCENT, SHRUNK - LEAST_PERCENT)
            percent = percent if n < count - 1 else SMALLER
            memory_bytes = MEMORY_BYTES * rng.randint(1, 4) // 4
            sizes = [(1, percent), (2, SHRUNK - percent)]
            for index, size in sizes if percent < present else reversed(sizes):
                bench.node.resize(index, size, memory_bytes)
            present = percent
            time.sleep(neighbours.seconds / count)
        yield


@dataclass(frozen=True)
class Variant:
    """Neighbours that change in one way, with options and environment of all programs."""

    name: str
    change: Callable[[Neighbours], AbstractContextManager[None]] = changed_in_turn
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


VARIANTS = (
    Variant(f"{KEPT}/{SHRUNK} to {KEPT}/{SMALLER}/{ADDED}"),
    Variant("with memory at the limit", options=("fill",)),
    Variant(f"{RESIZES} times at random", changed_at_random),
    Variant("over TLS", environment=MODES["TLS"]),
)


@dataclass
class Period:
    """The steps of one kind of period in all repetitions."""

    steps: list[float] = field(default_factory=list)
    """Seconds of those in which the machine ran."""
    stalled: int = 0
    """The number of the others."""

    def add(self, steps: list[Span], stalls: list[Span]) -> bool:
        """Add the steps of a repetition. Return whether the machine stalled."""
        kept = [s for s in steps if not any(overlap(s, stall) for stall in stalls)]
        self.steps += seconds_of(kept)
        self.stalled += len(steps) - len(kept)
        return len(kept) < len(steps)


@dataclass(frozen=True)
class Measured:
    periods: dict[str, Period]
    wrong: int
    """Results that differ from those of the processor."""
    load: float
    """The highest one of the machine."""


def repetition(steps: Steps, neighbours: Neighbours, variant: Variant) -> dict[str, list[Span]]:
    """Return the steps of one repetition by period. Blocks for it."""
    time.sleep(SETTLE_SECONDS)
    found = {name: steps.during(neighbours.seconds) for name in ("before", "unchanged")}
    began = time.monotonic_ns()
    with variant.change(neighbours):
        ended = time.monotonic_ns()
        found["after"] = steps.during(neighbours.seconds)
    return found | {"during": steps.touching(began, ended)}


def measure(bench: Bench, variant: Variant, repetitions: int = REPETITIONS) -> Measured:
    steady = replace(
        bench.load(KERNEL_US, options=variant.options), environment=variant.environment
    )
    batch_us, options = STEP_SECONDS * KEPT / 100 * 1e6, ("times", "results", *variant.options)
    stepping = replace(bench.load(KERNEL_US, batch_us, options), environment=variant.environment)
    kept, shrunk = bench.node.share([KEPT, SHRUNK], MEMORY_BYTES)
    periods, load = {name: Period() for name in PERIODS}, 0.0
    with (
        ready(bench.program, shrunk, steady),
        ready(bench.program, kept, stepping) as process,
        watched_stalls() as stalls,
    ):
        steps, rng = Steps(process), random.Random(5)  # noqa: S311
        neighbours = Neighbours(bench, steady, PERIOD * bench.seconds, rng)
        for n in range(repetitions):
            found = repetition(steps, neighbours, variant)
            stalled = [name for name in PERIODS if periods[name].add(found[name], stalls)]
            now = os.getloadavg()[0]
            load = max(load, now)
            state = f"THE MACHINE STALLED: {', '.join(stalled)}" if stalled else "no stall"
            title = f"resize {variant.name}, {n + 1} of {repetitions}"
            print(f"{title}: load {now:.1f}, {state}", file=sys.stderr, flush=True)
        return Measured(periods, wrong_results(steps.results[: len(steps.ends)], stepping), load)


def resize_rows(bench: Bench, variant: Variant) -> list[Row]:
    return period_rows(variant.name, measure(bench, variant))


def period_rows(name: str, measured: Measured) -> list[Row]:
    """Return how much longer the median and the 99th percentile of the steps are.

    The rows "unchanged" compare two periods in which nothing changes: 1 on a quiet machine. They
    are the control of the others.
    """
    periods, rows = measured.periods, []
    before, unchanged = periods["before"], periods["unchanged"]
    for period in PERIODS[1:]:
        base = [before] if period == "unchanged" else [before, unchanged]
        for quantile_name, q in QUANTILES.items():
            control = ratio([unchanged], [before], q)
            title = f"resize {name}: {quantile_name} step, {period}/before"
            compared = ratio_row(title, [periods[period]], base, q, control)
            rows.append(compared | {"load": round(measured.load, 1)})
    title = f"resize {name}: steps with another result"
    return [*rows, row(title, "steps", measured.wrong, 0)]


def steps_of(periods: list[Period]) -> list[float]:
    return [s for p in periods for s in p.steps]


def ratio(found: list[Period], base: list[Period], q: float) -> float:
    return quantile(steps_of(found), q) / quantile(steps_of(base), q)


def doubts(control: float, stalled: int) -> list[str]:
    """Return why steps of a machine that was not quiet prove nothing."""
    least, most = CONTROL
    found = [] if least <= round(control, 2) <= most else [f"control {control:.2f}"]
    return found + ([f"{stalled} stalled steps"] if stalled > MOST_STALLED else [])


def ratio_row(title: str, found: list[Period], base: list[Period], q: float, control: float) -> Row:
    """Return how much a quantile of the steps is longer than that of the base."""
    stalled = [sum(p.stalled for p in periods) for periods in (base, found)]
    return row(
        title,
        "x",
        ratio(found, base, q),
        TARGET,
        void=doubts(control, sum(stalled)),
        base_ms=milliseconds(steps_of(base), q),
        found_ms=milliseconds(steps_of(found), q),
        steps=[len(steps_of(periods)) for periods in (base, found)],
        stalled_steps=stalled,
    )
