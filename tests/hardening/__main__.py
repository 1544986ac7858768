"""`./bench hardening [--json]`: what hostile sessions, nodes and floods cost the others.

All measurements take about 12 minutes on two cores, or 4 with --quick. They need root for control
groups (admission).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hardening import admission, charges, front_door, full_pools, hostile_nodes
from tests.load.results import print_results

QUICK = 0.2
"""Share of the time, and of the counts, with --quick."""

Measurement = Callable[[Path, argparse.Namespace], list[dict[str, Any]]]
MEASUREMENTS: dict[str, Measurement] = {
    "admission": lambda folder, o: admission.measure(folder, measured=round(100 * o.scale)),
    "counts": lambda folder, o: full_pools.measure_counts(folder, o.scale),
    "starvation": lambda _, o: full_pools.measure_starvation(o.seconds),
    "flood": lambda folder, o: front_door.measure(folder, o.seconds),
    "charges": lambda folder, _: charges.measure(folder),
    "nodes": lambda folder, o: hostile_nodes.measure(folder, o.seconds / 2),
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./bench hardening",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK:.0%} of the time and of the counts"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        help="duration of the flood, of a transport's starvation, and twice that of a flood of"
        " nodes (default 60, 12 with --quick)",
    )
    parser.add_argument(
        "--only", action="append", choices=MEASUREMENTS, help="measure this only; can be repeated"
    )
    options = parser.parse_args()
    options.scale = QUICK if options.quick else 1.0
    options.seconds = options.seconds or 60.0 * options.scale
    return options


def main() -> None:
    options = parse_arguments()
    results: list[dict[str, Any]] = []
    for name, measure in MEASUREMENTS.items():
        if not options.only or name in options.only:
            with tempfile.TemporaryDirectory(prefix="busbar-") as folder:
                results += measure(Path(folder), options)
    print_results(results, as_json=options.json)
    raise SystemExit(0 if all(r["met"] for r in results) else 1)


if __name__ == "__main__":
    main()
