"""Measurements in slices: in each, some of the programs run and the rest are stopped.

Two measurements one after the other differ by what the machine does meanwhile, which slows slices
in turn all alike. A stopped program stays connected. Its session completes what was submitted, and
then has no work.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from remoting.bench.partitions.tenants import (
    Bench,
    Tenant,
    Work,
    completed,
    difference,
    samples,
)
from remoting.bench.shared_node import SharedNode

COUNT = 8
"""Slices of each set of programs."""
LENGTH = 0.1
"""Of a slice, in times the seconds of other rows."""
STILL_SECONDS = 0.2
"""A session that completes nothing for so long has no work: several rounds of turns."""
SETTLE_SECONDS = 0.3


@dataclass(frozen=True)
class Slices:
    """Work and busy time of a set of programs in each of its slices."""

    rates: list[float]
    """Rounds of each second."""
    busy: list[float]
    """Percent of the time in which a process of the set had its GPU."""

    def of(self, *others: Slices) -> float:
        """Return the median of the ratios of these rates to the best other ones of each round."""
        best: list[float] = [max(rates) for rates in zip(*(o.rates for o in others), strict=True)]
        return median(a / b for a, b in zip(self.rates, best, strict=True))

    @property
    def spread(self) -> float:
        """The difference between the best and the worst slice, in percent of the median.

        A set that completes nothing has none.
        """
        return 100 * (max(self.rates) - min(self.rates)) / max(median(self.rates), 1.0)


def stop(node: SharedNode, stopped: Sequence[Tenant]) -> None:
    """Stop programs. Blocks until all that they have submitted has ended."""
    for tenant in stopped:
        tenant.process.send_signal(signal.SIGSTOP)
    before: list[Work] | None = None
    while (found := [completed(node)[t.page] for t in stopped]) != before:
        before = found
        time.sleep(STILL_SECONDS)


def resume(stopped: Sequence[Tenant]) -> None:
    for tenant in stopped:
        tenant.process.send_signal(signal.SIGCONT)


def alternate(
    bench: Bench, running: Sequence[Tenant], sets: Sequence[Sequence[Tenant]]
) -> list[Slices]:
    """Return what each set of the running programs completes while all others are stopped."""
    found = [Slices([], []) for _ in sets]
    for n in range(COUNT):
        pairs = list(zip(sets, found, strict=True))
        for chosen, slices in pairs if n % 2 else reversed(pairs):
            stop(bench.node, running)
            resume(chosen)
            time.sleep(SETTLE_SECONDS)
            add_slice(bench, chosen, slices)
    return found


def add_slice(bench: Bench, chosen: Sequence[Tenant], slices: Slices) -> None:
    before, after = samples(bench.node, 2, round(1000 * LENGTH * bench.seconds))
    nanoseconds = after.nanoseconds - before.nanoseconds
    work = difference(before, after, chosen)
    rounds = sum(w.blocks * t.rounds for w, t in zip(work, chosen, strict=True))
    slices.rates.append(1e9 * rounds / nanoseconds)
    slices.busy.append(100 * sum(w.busy_nanoseconds for w in work) / nanoseconds)
