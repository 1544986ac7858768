"""The form of a row of `./bench partitions`."""

from __future__ import annotations

import math
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


def quantile_error(values: list[float], q: float) -> float | None:
    """Return the half of the 95 % confidence interval of a quantile, relative to the quantile.

    It is that of independent values, from the ranks between which the quantile lies. None if there
    are too few values for the upper rank.
    """
    ordered, count = sorted(values), len(values)
    ranks = 1.96 * math.sqrt(count * q * (1 - q))
    low = max(0, math.floor(count * q - ranks) - 1)
    high = math.ceil(count * q + ranks) - 1
    if high >= count:
        return None
    return (ordered[high] - ordered[low]) / 2 / quantile(values, q)
