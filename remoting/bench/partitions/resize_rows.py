"""Rows "resize" of `./bench partitions`: the steps of a tenant while its neighbours are resized.

The tenant has 45 %. Its neighbour has 55 %, shrinks to 35 %, and a third tenant comes with 20 %.
A step is a batch of kernels that takes about 0.2 s, twenty turns of all tenants: the order of the
turns may make it one or two turns longer. Each kernel begins with the result of the last one, so
the result of a step tells whether all before it were right.

The sizes change in several repetitions, and each has four periods: two in which nothing changes,
one with changes, and one after them. Each period has the steps of all repetitions, so that what
slows the machine for a while slows steps of all four. What the second period differs from the first
is the noise of the machine. The other two are compared with both of them.
"""

from __future__ import annotations

import math
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise

from deploy.supervisor import wait_for
from remoting.bench.partitions.rows import Row, quantile, quantile_error, row
from remoting.bench.partitions.tenants import MEMORY_BYTES, Bench, Load, ready
from tests.remoting.modes import MODES

KEPT, SHRUNK, SMALLER, ADDED = 45, 55, 35, 20
STEP_SECONDS = 0.2
KERNEL_US = 1000.0
PERIOD = 0.5
"""Length of a period, in times the seconds of other rows."""
PAUSE = 0.04
"""Time between two changes at random, in the same unit."""
PERIODS = ("before", "unchanged", "during", "after")
RESIZES, LEAST_PERCENT = 100, 5
TARGET = 1.05
SETTLE_SECONDS = 1.0
"""Time after the start and after the third tenant has left, before steps count."""
FREE_SECONDS = 60
MULTIPLIER, INCREMENT = 1664525, 1013904223
"""A round of a kernel is x * MULTIPLIER + INCREMENT, modulo 2**32."""


class Steps:
    """The times at which the steps of a running program end, and their results."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.ends: list[int] = []
        self.results: list[int] = []
        """With the option `results` of the program."""
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            end, *result = map(int, line.split())
            self.results += result
            self.ends.append(end)

    def between(self, begin: int, end: int) -> list[float]:
        """Return the seconds of the steps that began and ended in a period."""
        ends = [t for t in self.ends if begin <= t <= end]
        return [(b - a) / 1e9 for a, b in pairwise(ends)]

    def touching(self, begin: int, end: int) -> list[float]:
        """Return the seconds of the steps of which a part is in a period."""
        return [(b - a) / 1e9 for a, b in pairwise(self.ends) if b >= begin and a <= end]

    def during(self, seconds: float) -> list[float]:
        """Return the seconds of the steps of the next period. Blocks for that."""
        began = time.monotonic_ns()
        time.sleep(seconds)
        return self.between(began, time.monotonic_ns())


def after_rounds(count: int) -> int:
    """Return the number that `count` rounds make of 0."""
    multiplier, increment, result = MULTIPLIER, INCREMENT, 0
    while count:
        if count & 1:
            result = (result * multiplier + increment) % (1 << 32)
        increment = increment * (multiplier + 1) % (1 << 32)
        multiplier = multiplier * multiplier % (1 << 32)
        count >>= 1
    return result


def wrong_results(results: list[int], load: Load) -> int:
    """Return how many results differ from those of the processor. The first is of the second."""
    expected = (after_rounds(n * load.rounds * load.batch) for n in range(2, len(results) + 2))
    return sum(a != b for a, b in zip(results, expected, strict=True))


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
    resizes: int
    """The number of those at random."""


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
    count, pause = neighbours.resizes, PAUSE * bench.seconds
    with third_tenant(bench, neighbours.load, MEMORY_BYTES):
        for n in range(count):
            percent = rng.randint(LEAST_PERCENT, SHRUNK - LEAST_PERCENT)
            percent = percent if n < count - 1 else SMALLER
            memory_bytes = MEMORY_BYTES * rng.randint(1, 4) // 4
            sizes = [(1, percent), (2, SHRUNK - percent)]
            for index, size in sizes if percent < present else reversed(sizes):
                bench.node.resize(index, size, memory_bytes)
            present = percent
            time.sleep(pause)
        yield


@dataclass(frozen=True)
class Variant:
    """Neighbours that change in one way, with options and environment of all programs."""

    name: str
    repetitions: int
    """In the default time, a period has 23 steps."""
    change: Callable[[Neighbours], AbstractContextManager[None]] = changed_in_turn
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


FEW, MANY = 2, 20
QUANTILES = {FEW: {"p50": 0.5}, MANY: {"p50": 0.5, "p99": 0.99}}
"""By the number of repetitions. The 99th percentile of few steps would be the slowest one."""
VARIANTS = (
    Variant(f"{KEPT}/{SHRUNK} to {KEPT}/{SMALLER}/{ADDED}", MANY),
    Variant("with memory at the limit", FEW, options=("fill",)),
    Variant(f"{RESIZES} times at random", FEW, changed_at_random),
    Variant("over TLS", FEW, environment=MODES["TLS"]),
)
"""The percentiles of the first one are exact to a few percent (docs/benchmarks.md). The others show
that all results are right, and a median that is longer by a factor."""


@dataclass(frozen=True)
class Measured:
    """Seconds of the steps of each period of `PERIODS`, and wrong results."""

    periods: dict[str, list[float]]
    wrong: int


def repeat(steps: Steps, neighbours: Neighbours, variant: Variant) -> dict[str, list[float]]:
    """Return the steps of all repetitions by period. Blocks for them."""
    seconds = neighbours.seconds
    periods: dict[str, list[float]] = {name: [] for name in PERIODS}
    for _ in range(variant.repetitions):
        time.sleep(SETTLE_SECONDS)
        for name in ("before", "unchanged"):
            periods[name] += steps.during(seconds)
        began = time.monotonic_ns()
        with variant.change(neighbours):
            ended = time.monotonic_ns()
            periods["after"] += steps.during(seconds)
        periods["during"] += steps.touching(began, ended)
    return periods


def measure(bench: Bench, variant: Variant) -> Measured:
    steady = replace(
        bench.load(KERNEL_US, options=variant.options), environment=variant.environment
    )
    batch_us, options = STEP_SECONDS * KEPT / 100 * 1e6, ("times", "results", *variant.options)
    stepping = replace(bench.load(KERNEL_US, batch_us, options), environment=variant.environment)
    kept, shrunk = bench.node.share([KEPT, SHRUNK], MEMORY_BYTES)
    with (
        ready(bench.program, shrunk, steady),
        ready(bench.program, kept, stepping) as process,
    ):
        steps, rng = Steps(process), random.Random(5)  # noqa: S311
        resizes = RESIZES // variant.repetitions
        neighbours = Neighbours(bench, steady, PERIOD * bench.seconds, rng, resizes)
        periods = repeat(steps, neighbours, variant)
        return Measured(periods, wrong_results(steps.results[: len(steps.ends)], stepping))


def resize_rows(bench: Bench, variant: Variant) -> list[Row]:
    """Return how much longer the median and, of many steps, the 99th percentile are.

    The rows "unchanged" compare two periods in which nothing changes: 1 on a quiet machine.
    """
    measured, rows = measure(bench, variant), []
    periods = measured.periods
    for period in PERIODS[1:]:
        base = periods["before"] + (periods["unchanged"] if period != "unchanged" else [])
        for name, q in QUANTILES[variant.repetitions].items():
            title = f"resize {variant.name}: {name} step, {period}/before"
            rows.append(ratio_row(title, periods[period], base, q))
    title = f"resize {variant.name}: steps with another result"
    return [*rows, row(title, "steps", measured.wrong, 0)]


def ratio_row(title: str, found: list[float], base: list[float], q: float) -> Row:
    """Return how much a quantile of the steps is longer than that of the base, with its error."""
    errors = quantile_error(base, q), quantile_error(found, q)
    details = {
        "base_ms": round(1000 * quantile(base, q), 1),
        "found_ms": round(1000 * quantile(found, q), 1),
        "steps": [len(base), len(found)],
        "error": None if None in errors else round(math.hypot(*filter(None, errors)), 3),
    }
    return row(title, "x", quantile(found, q) / quantile(base, q), TARGET, **details)
