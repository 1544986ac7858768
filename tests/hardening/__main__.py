"""`./bench hardening [--json]`: what hostile sessions and floods cost the others."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.hardening import admission, front_door
from tests.load.results import print_results

MEASUREMENTS: dict[str, Callable[[Path, argparse.Namespace], list[dict[str, Any]]]] = {
    "admission": lambda folder, _: admission.measure(folder),
    "flood": lambda folder, options: front_door.measure(folder, options.seconds),
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./bench hardening", description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration of the flood")
    parser.add_argument(
        "--only", action="append", choices=MEASUREMENTS, help="measure this only; can be repeated"
    )
    return parser.parse_args()


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
