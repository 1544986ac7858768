"""The form of a row of `./bench partitions`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

Row = dict[str, object]


def row(
    name: str, unit: str, value: float, target: float, *, void: Sequence[str] = (), **more: object
) -> Row:
    """Return a row whose value must be at most its target.

    `void`: why the value proves nothing, whatever it is. One of no samples proves nothing either.
    """
    reasons = [*void, *(["no samples"] if math.isnan(value) else [])]
    judged = "met" if value <= target else "missed"
    verdict = {"verdict": "void", "void": reasons} if reasons else {"verdict": judged}
    return {"name": name, "value": rounded(value, 2), "unit": unit, "target": target, **verdict} | {
        "clock": "executed blocks",
        "turn": "10 ms",
        "load": round(os.getloadavg()[0], 1),
        **more,
    }


def line_of(r: Row) -> str:
    """Return a row as a line of text."""
    verdict = str(r["verdict"]).replace("missed", "MISSED")
    if isinstance(reasons := r.get("void"), list):
        verdict += f": {', '.join(reasons)}"
    value = f"{r['value']!s:>8} {r['unit']:6}"
    return f"{r['name']:70} {value} target {r['target']:>5}  {verdict}"


def rounded(value: float, digits: int) -> float | None:
    """Return a number for JSON, which has none for the quantile of no values."""
    return None if math.isnan(value) else round(value, digits)


def quantile(values: list[float], q: float) -> float:
    """Return a quantile; not a number if there are no values."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * q), len(ordered) - 1)] if ordered else math.nan


def milliseconds(values: list[float], q: float) -> float | None:
    """Return a quantile of seconds in milliseconds."""
    return rounded(1000 * quantile(values, q), 1)
