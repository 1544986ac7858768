"""Rows of results of the benches of the appliance."""

from __future__ import annotations

import json
import os
import platform


def result(
    name: str, unit: str, value: float, target: float, met: bool | None = None, **more: object
) -> dict[str, object]:
    """Return one row of the results. Without `met`, the value must not exceed the target."""
    return {
        "name": name,
        "value": round(value, 3),
        "unit": unit,
        "target": target,
        "met": value <= target if met is None else met,
        **more,
    }


def print_results(results: list[dict[str, object]], *, as_json: bool) -> None:
    """Print the rows that have a target, or all of them and the machine as JSON."""
    if as_json:
        print(json.dumps({"machine": machine(), "results": results}, indent=1))
        return
    for r in results:
        if "target" in r:
            print(
                f"{'met   ' if r['met'] else 'MISSED'} {r['name']:30} {r['value']:>14,}"
                f" {r['unit']:6} target {r['target']:,}"
            )


def machine() -> dict[str, object]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
