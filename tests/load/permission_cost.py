"""`./bench appliance --permission-pairs N`: processor time that many role bindings add to lists.

Each pair measures the same lists twice: with few roles, and with those of `tests/load/people.py`.
The order alternates, so that a slow change of the machine's speed affects both alike. No agent is
connected, so that the share of the permission checks is greater than under the whole load.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.load.appliance import Bench
from tests.load.results import result
from tests.load.stages import Worker

LISTS_PER_SECOND, WARM_UP_SECONDS = 40.0, 10.0
TARGET_PERCENT = 5.0
Pair = tuple[float, float]
"""Processor milliseconds of one list, with few and with many roles."""


def measure_pairs(folder: Path, nodes: int, pairs: int, seconds: float) -> list[dict[str, object]]:
    """Return the row of the cost. Raises SystemExit if a list was not answered."""
    benches = [Bench(folder / name, nodes, with_people=name == "many") for name in ("few", "many")]
    for bench in benches:
        bench.folder.mkdir(parents=True)
        bench.populate()
    found = interleave(
        pairs,
        lambda: milliseconds_per_list(benches[0], seconds),
        lambda: milliseconds_per_list(benches[1], seconds),
    )
    return [cost_row(found)]


def interleave(
    count: int, with_few: Callable[[], float], with_many: Callable[[], float]
) -> list[Pair]:
    """Measure pairs; in every second one, many roles come first."""
    pairs = []
    for n in range(count):
        if n % 2:
            many = with_many()
            pair = (with_few(), many)
        else:
            pair = (with_few(), with_many())
        print(f"pair {n + 1}: {pair[0]:.3f} and {pair[1]:.3f} ms a list", file=sys.stderr)
        pairs.append(pair)
    return pairs


def cost_row(pairs: Sequence[Pair]) -> dict[str, object]:
    """Return the median of the pairs' added percent, with all of them."""
    added = [100 * (many / few - 1) for few, many in pairs]
    return result(
        "permission_processor_percent",
        "%",
        statistics.median(added),
        TARGET_PERCENT,
        added_percent=[round(percent, 2) for percent in added],
        few_ms=round(statistics.median(few for few, _ in pairs), 3),
        many_ms=round(statistics.median(many for _, many in pairs), 3),
    )


def milliseconds_per_list(bench: Bench, seconds: float) -> float:
    """Start the appliance, ask for lists, and return the processor time of one of them."""
    bench.start()
    clients = Worker("rest_clients", bench.folder, bench.url, LISTS_PER_SECOND, 0.0)
    try:
        time.sleep(WARM_UP_SECONDS)
        begin, before = time.time(), bench.processor_seconds()
        time.sleep(seconds)
        end, used = time.time(), bench.processor_seconds() - before
        time.sleep(1.0)
        figures = clients.request("figures", begin, end)["list"]
    finally:
        clients.stop()
        bench.appliance.terminate()
        bench.appliance.wait()
    if figures["misses"]:
        raise SystemExit(f"{figures['misses']} lists failed: {figures['problems']}")
    return 1000 * used / (LISTS_PER_SECOND * (end - begin))
