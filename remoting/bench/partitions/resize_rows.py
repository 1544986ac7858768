"""Row "resize" of `./bench partitions`: the steps of a tenant while its neighbours are resized.

The tenant has 45 %. Its neighbour has 55 %, shrinks to 35 %, and a third tenant comes with 20 %;
then the third one leaves, and the neighbour grows again. A step is a batch of kernels that takes
about half a second, fifty turns.
"""

from __future__ import annotations

import subprocess
import threading
import time
from itertools import pairwise

from remoting.bench.partitions.rows import Row, quantile, row
from remoting.bench.partitions.tenants import MEMORY_BYTES, Bench, Load, ready

KEPT, SHRUNK, SMALLER, ADDED = 45, 55, 35, 20
STEP_SECONDS = 0.5
KERNEL_US = 2000.0
PHASES = 8
"""Changes of the neighbours while the steps are measured."""
TARGET = 1.05
BATCHES_AHEAD = 2


class Steps:
    """The times at which the steps of a running program end."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.ends: list[int] = []
        self._process = process
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.ends.append(int(line))

    def between(self, begin: int, end: int) -> list[float]:
        """Return the seconds of the steps that began and ended in a period."""
        ends = [t for t in self.ends if begin <= t <= end]
        return [(b - a) / 1e9 for a, b in pairwise(ends)]

    def during(self, seconds: float) -> list[float]:
        """Return the seconds of the steps of the next period. Blocks for that."""
        began = time.monotonic_ns()
        time.sleep(seconds)
        return self.between(began, time.monotonic_ns())


def change_neighbours(bench: Bench, load: Load, seconds: float) -> None:
    """Shrink the neighbour and add a third tenant, and undo it, in turn."""
    phase = seconds / PHASES
    for _ in range(PHASES // 2):
        bench.node.resize(1, SMALLER, MEMORY_BYTES)
        env = bench.node.add_share(ADDED, MEMORY_BYTES)
        with ready(bench.program, env, load):
            time.sleep(phase)
        bench.node.remove_share()
        bench.node.resize(1, SHRUNK, MEMORY_BYTES)
        time.sleep(phase)


def measure(bench: Bench, seconds: float) -> tuple[list[float], list[float]]:
    """Return the steps before the neighbours change, and while they do."""
    steady = bench.load(KERNEL_US)
    stepping = bench.load(KERNEL_US, STEP_SECONDS * KEPT / 100 * 1e6, ["times"])
    kept, shrunk = bench.node.share([KEPT, SHRUNK], MEMORY_BYTES)
    with (
        ready(bench.program, shrunk, steady),
        ready(bench.program, kept, stepping) as process,
    ):
        steps = Steps(process)
        time.sleep(BATCHES_AHEAD * STEP_SECONDS)
        before = steps.during(seconds)
        changed = time.monotonic_ns()
        change_neighbours(bench, steady, seconds)
        return before, steps.between(changed, time.monotonic_ns())


def resize_rows(bench: Bench, seconds: float) -> list[Row]:
    """Return how much longer the median and the 99th percentile of the steps are during changes."""
    before, during = measure(bench, seconds)
    rows = []
    for name, q in (("p50", 0.5), ("p99", 0.99)):
        ratio = quantile(during, q) / quantile(before, q)
        details = {
            "before_ms": round(1000 * quantile(before, q), 1),
            "during_ms": round(1000 * quantile(during, q), 1),
            "steps": [len(before), len(during)],
        }
        title = f"resize {KEPT}/{SHRUNK} to {KEPT}/{SMALLER}/{ADDED}: {name} step, during/before"
        rows.append(row(title, "x", ratio, TARGET, **details))
    return rows
