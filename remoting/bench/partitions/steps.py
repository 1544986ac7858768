"""Steps of a running program: when they end, and what they compute."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterable
from itertools import pairwise

from remoting.bench.partitions.tenants import Load

MULTIPLIER, INCREMENT = 1664525, 1013904223
"""A round of a kernel is x * MULTIPLIER + INCREMENT, modulo 2**32."""

Span = tuple[int, int]
"""Begin and end, in nanoseconds of the monotonic clock."""


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

    def between(self, begin: int, end: int) -> list[Span]:
        """Return the steps that began and ended in a period."""
        return [(a, b) for a, b in pairwise(self.ends) if a >= begin and b <= end]

    def touching(self, begin: int, end: int) -> list[Span]:
        """Return the steps of which a part is in a period."""
        return [s for s in pairwise(self.ends) if overlap(s, (begin, end))]

    def during(self, seconds: float) -> list[Span]:
        """Return the steps of the next period. Blocks for that."""
        began = time.monotonic_ns()
        time.sleep(seconds)
        return self.between(began, time.monotonic_ns())


def overlap(a: Span, b: Span) -> bool:
    return a[1] >= b[0] and a[0] <= b[1]


def seconds_of(spans: Iterable[Span]) -> list[float]:
    return [(end - begin) / 1e9 for begin, end in spans]


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
