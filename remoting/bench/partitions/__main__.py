"""`./bench partitions`: shares of one software GPU, from the work that its tenants completed."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from typing import Any

from remoting.bench.partitions.launcher_rows import launcher_rows
from remoting.bench.partitions.neighbour_rows import neighbour_rows
from remoting.bench.partitions.resize_rows import resize_rows
from remoting.bench.partitions.rows import Row
from remoting.bench.partitions.share_rows import (
    KERNELS_US,
    SHARES,
    bursty_row,
    capped_row,
    lost_row,
    mixed_row,
    share_row,
)
from remoting.bench.partitions.tenants import Bench, software_gpu
from remoting.bench.partitions.window_rows import window_rows

RESIZE_PERIODS = 4
"""The steps of a tenant are measured for so many times the seconds of other rows."""
GRANULARITIES = ("20 us", "2 ms")


def shares(bench: Bench) -> list[Row]:
    rows = [share_row(bench, p, k) for p in SHARES for k in KERNELS_US]
    return rows + [share_row(bench, (30, 70), k) for k in ("wide grids", "graphs")]


PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    "shares": shares,
    "modes": lambda b: (
        [capped_row(b, k) for k in GRANULARITIES]
        + [mixed_row(b, k) for k in GRANULARITIES]
        + [bursty_row(b)]
    ),
    "windows": lambda b: [
        r for p in ((30, 70), (25, 25, 50)) for k in GRANULARITIES for r in window_rows(b, p, k)
    ],
    "lost": lambda b: [lost_row(b, p, k) for p in ((50, 50), (25, 25, 50)) for k in GRANULARITIES],
    "launcher": lambda _: launcher_rows(),
    "neighbours": neighbour_rows,
    "resize": lambda b: resize_rows(b, RESIZE_PERIODS * b.seconds),
}


def run(seconds: float, parts: list[str]) -> dict[str, Any]:
    with software_gpu(seconds) as bench:
        results = [r for part in parts for r in PARTS[part](bench)]
    machine = {"processor": platform.processor() or platform.machine(), "driver": "software GPU"}
    return {"machine": machine | {"cores": len(os.sched_getaffinity(0))}, "results": results}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./bench partitions", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; without any: all"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    report = run(arguments.seconds, arguments.parts or list(PARTS))
    if arguments.json:
        print(json.dumps(report))
        return
    for r in report["results"]:
        verdict = "met" if r["met"] else "MISSED"
        print(f"{r['name']:60} {r['value']:>8} {r['unit']:6} target {r['target']:>5}  {verdict}")


if __name__ == "__main__":
    main()
