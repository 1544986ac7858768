"""The form of a row of `./bench partitions`."""

from __future__ import annotations

import os

Row = dict[str, object]


def row(name: str, unit: str, value: float, target: float, **more: object) -> Row:
    """Return a row whose value must be at most its target."""
    met = value <= target
    return {"name": name, "value": round(value, 2), "unit": unit, "target": target, "met": met} | {
        "clock": "executed blocks",
        "turn": "10 ms",
        "load": round(os.getloadavg()[0], 1),
        **more,
    }


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * q), len(ordered) - 1)]
