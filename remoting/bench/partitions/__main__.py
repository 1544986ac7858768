"""`./bench partitions`: shares of one software GPU, from the work that its tenants completed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from deploy.supervisor import ROOT
from remoting.bench.partitions.launcher_rows import launcher_rows
from remoting.bench.partitions.lost_rows import capped_row, lost_rows
from remoting.bench.partitions.neighbour_rows import neighbour_rows
from remoting.bench.partitions.resize_chart import record, svg
from remoting.bench.partitions.resize_rows import VARIANTS, resize_rows
from remoting.bench.partitions.rows import Row, line_of
from remoting.bench.partitions.share_rows import (
    KERNELS_US,
    SHARES,
    beside_shared_row,
    bursty_row,
    mixed_lengths_rows,
    pauses_row,
    share_row,
    thirds_row,
)
from remoting.bench.partitions.tenants import Bench, software_gpu
from remoting.bench.partitions.window_rows import window_row

GRANULARITIES = ("20 us", "2 ms")


def shares(bench: Bench) -> list[Row]:
    rows = [share_row(bench, p, k) for p in SHARES for k in KERNELS_US]
    rows += mixed_lengths_rows(bench, [p for p in SHARES if len(p) == 2])
    return rows + [share_row(bench, (30, 70), k) for k in ("wide grids", "graphs")]


def modes(bench: Bench) -> list[Row]:
    rows = [capped_row(bench, k) for k in GRANULARITIES]
    kinds = [(m, k) for m in ("capped", "guaranteed") for k in GRANULARITIES]
    return rows + [beside_shared_row(bench, *kind) for kind in kinds]


def pauses(bench: Bench) -> list[Row]:
    return [bursty_row(bench), thirds_row(bench), *(pauses_row(bench, k) for k in KERNELS_US)]


def lost(bench: Bench) -> list[Row]:
    mixes = [(p, k) for p in ((50, 50), (25, 25, 50)) for k in GRANULARITIES]
    return [row for mix in mixes for row in lost_rows(bench, *mix)]


PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    "shares": shares,
    "modes": modes,
    "pauses": pauses,
    "windows": lambda b: [
        window_row(b, p, k) for p in ((30, 70), (25, 25, 50)) for k in GRANULARITIES
    ],
    "lost": lost,
    "launcher": lambda _: launcher_rows(),
    "neighbours": neighbour_rows,
    "resize": lambda b: [r for v in VARIANTS for r in resize_rows(b, v)],
}


def measured(bench: Bench, part: str, out: TextIO) -> list[Row]:
    """Return the rows of a part, and print them at once: all parts take an hour."""
    rows = PARTS[part](bench)
    for r in rows:
        print(line_of(r), file=out, flush=True)
    return rows


def run(seconds: float, parts: list[str], out: TextIO) -> dict[str, Any]:
    with software_gpu(seconds) as bench:
        results = [r for part in parts for r in measured(bench, part, out)]
    machine = {"processor": platform.processor() or platform.machine(), "driver": "software GPU"}
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    cores = len(os.sched_getaffinity(0))
    return {"commit": commit, "machine": machine | {"cores": cores}, "results": results}


def main() -> None:
    parser = argparse.ArgumentParser(prog="./bench partitions", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measurement")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; without any: all"
    )
    parser.add_argument(
        "--chart",
        type=Path,
        metavar="FILE",
        help="only draw the shares of a resize (SVG)",
    )
    arguments = parser.parse_args()
    if arguments.chart:
        with software_gpu(arguments.seconds) as bench:
            arguments.chart.write_text(svg(record(bench, arguments.seconds)))
        return
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    out = sys.stderr if arguments.json else sys.stdout
    report = run(arguments.seconds, arguments.parts or list(PARTS), out)
    if arguments.json:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
