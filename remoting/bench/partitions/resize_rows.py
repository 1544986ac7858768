"""Rows "resize" of `./bench partitions`: the steps of a tenant while its neighbours are resized.

The tenant has 45 %. Its neighbour has 55 %, shrinks to 35 %, and a third tenant comes with 20 %.
A step is a batch of kernels that takes about half a second, fifty turns. Each kernel begins with
the result of the last one, so the result of a step tells whether all before it were right.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise

from deploy.supervisor import wait_for
from remoting.bench.partitions.rows import Row, quantile, row
from remoting.bench.partitions.tenants import MEMORY_BYTES, Bench, Load, ready

KEPT, SHRUNK, SMALLER, ADDED = 45, 55, 35, 20
STEP_SECONDS = 0.5
KERNEL_US = 2000.0
CHANGES = 4
"""Times that the third tenant comes while the steps are measured."""
RESIZES, LEAST_PERCENT = 100, 5
TARGET = 1.05
BATCHES_AHEAD = 2
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


@contextmanager
def changed_in_turn(
    bench: Bench, load: Load, seconds: float, memory_bytes: int = MEMORY_BYTES
) -> Iterator[None]:
    """Let the third tenant come and go for some seconds, and come again."""
    for _ in range(CHANGES):
        with third_tenant(bench, load, memory_bytes):
            time.sleep(seconds / CHANGES / 2)
        time.sleep(seconds / CHANGES / 2)
    with third_tenant(bench, load, memory_bytes):
        yield


@contextmanager
def changed_at_random(bench: Bench, load: Load, seconds: float) -> Iterator[None]:
    """Give the two neighbours other parts of 55 % and of the memory for some seconds."""
    rng, present = random.Random(5), SMALLER  # noqa: S311 - the same in each run
    with third_tenant(bench, load, MEMORY_BYTES):
        for n in range(RESIZES):
            percent = rng.randint(LEAST_PERCENT, SHRUNK - LEAST_PERCENT)
            percent = percent if n < RESIZES - 1 else SMALLER
            memory_bytes = MEMORY_BYTES * rng.randint(1, 4) // 4
            sizes = [(1, percent), (2, SHRUNK - percent)]
            for index, size in sizes if percent < present else reversed(sizes):
                bench.node.resize(index, size, memory_bytes)
            present = percent
            time.sleep(seconds / RESIZES)
        yield


@dataclass(frozen=True)
class Variant:
    """Neighbours that change in one way, with options of all programs."""

    name: str
    change: Callable[[Bench, Load, float], AbstractContextManager[None]]
    options: tuple[str, ...] = ()


VARIANTS = (
    Variant(f"{KEPT}/{SHRUNK} to {KEPT}/{SMALLER}/{ADDED}", changed_in_turn),
    Variant("with memory at the limit", changed_in_turn, ("fill",)),
    Variant(f"{RESIZES} times at random", changed_at_random),
)


@dataclass(frozen=True)
class Measured:
    """Seconds of the steps before, while and after the neighbours change, and wrong results."""

    periods: dict[str, list[float]]
    wrong: int


def measure(bench: Bench, seconds: float, variant: Variant) -> Measured:
    steady = bench.load(KERNEL_US, options=variant.options)
    options = ("times", "results", *variant.options)
    stepping = bench.load(KERNEL_US, STEP_SECONDS * KEPT / 100 * 1e6, options)
    kept, shrunk = bench.node.share([KEPT, SHRUNK], MEMORY_BYTES)
    with (
        ready(bench.program, shrunk, steady),
        ready(bench.program, kept, stepping) as process,
    ):
        steps = Steps(process)
        time.sleep(BATCHES_AHEAD * STEP_SECONDS)
        before = steps.during(seconds)
        changed = time.monotonic_ns()
        with variant.change(bench, steady, seconds):
            during = steps.between(changed, time.monotonic_ns())
            after = steps.during(seconds)
        periods = {"before": before, "during": during, "after": after}
        return Measured(periods, wrong_results(steps.results[: len(steps.ends)], stepping))


def resize_rows(bench: Bench, seconds: float, variant: Variant) -> list[Row]:
    """Return how much longer the median and the 99th percentile of the steps are.

    A period takes some seconds: before the neighbours change, while they do, and after that.
    """
    measured, rows = measure(bench, seconds, variant), []
    before = measured.periods["before"]
    for period in ("during", "after"):
        for name, q in (("p50", 0.5), ("p99", 0.99)):
            found = measured.periods[period]
            details = {
                "before_ms": round(1000 * quantile(before, q), 1),
                f"{period}_ms": round(1000 * quantile(found, q), 1),
                "steps": [len(before), len(found)],
            }
            title = f"resize {variant.name}: {name} step, {period}/before"
            ratio = quantile(found, q) / quantile(before, q)
            rows.append(row(title, "x", ratio, TARGET, **details))
    title = f"resize {variant.name}: steps with another result"
    return [*rows, row(title, "steps", measured.wrong, 0)]
