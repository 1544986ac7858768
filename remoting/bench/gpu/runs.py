"""Runs of a part, alternately natively and remoted, and their comparison."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remoting.bench.gpu.rows import Part, Setting

RUN_SECONDS = 900
NATIVE = "native"
Environment = dict[str, str]


@dataclass
class Outcome:
    """Results of one row: the figures or digests of all runs by mode, or an error."""

    unit: str = ""
    runs: dict[str, list[float | str]] = field(default_factory=dict)
    error: str = ""

    def summary(self, name: str) -> dict[str, Any]:
        """Return the row of the report.

        Figures: medians by mode, and `spread` with minimum and maximum. Digests: `same` is True if
        all runs of all modes are equal.
        """
        row: dict[str, Any] = {"name": name, "unit": self.unit}
        if self.error:
            return row | {"error": self.error}
        if any(isinstance(v, str) for values in self.runs.values() for v in values):
            return row | {
                "same": len({v for values in self.runs.values() for v in values}) == 1,
                "runs": sum(map(len, self.runs.values())),
            }
        figures = {mode: [float(v) for v in values] for mode, values in self.runs.items()}
        medians = {mode: statistics.median(values) for mode, values in figures.items()}
        return (
            row
            | medians
            | {"spread": {mode: [min(values), max(values)] for mode, values in figures.items()}}
        )


def parse_output(part: Part, out: str) -> Mapping[str, float | str]:
    """Return the values of a run's output by row. Raises ValueError if a row is missing."""
    if part.whole:
        return {part.digests[0]: out}
    last: dict[str, Any] = json.loads(out.splitlines()[-1])
    if "figures" not in last and "digests" not in last:
        last = {"figures": last}  # programs of ./bench remoting print figures only
    found: dict[str, float | str] = {**last.get("figures", {}), **last.get("digests", {})}
    if missing := {*part.figures, *part.digests} - found.keys():
        raise ValueError(f"no result for {sorted(missing)}")
    return found


def run_once(part: Part, command: list[str | Path], env: Environment) -> Mapping[str, float | str]:
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    if done.returncode:
        raise ValueError(f"exited with {done.returncode}: {(done.stdout + done.stderr)[-400:]}")
    return parse_output(part, done.stdout)


def run_part(
    part: Part, setting: Setting, modes: Mapping[str, Environment], repetitions: int
) -> list[dict[str, Any]]:
    """Run all modes alternately, so that changes over time affect all modes. Return the rows."""
    rows = {name: Outcome(unit) for name, unit in part.figures.items()} | {
        name: Outcome() for name in part.digests
    }
    used = {NATIVE: modes[NATIVE]} if part.native_only else modes
    command = part.command(setting)
    for i in range(repetitions):
        order = list(used)[i % len(used) :] + list(used)[: i % len(used)]
        for mode in order:
            try:
                found = run_once(part, command, dict(os.environ) | used[mode])
            except (ValueError, OSError, subprocess.TimeoutExpired) as e:
                for row in rows.values():
                    row.error = f"{mode}: {e}"
                return [row.summary(name) for name, row in rows.items()]
            for name, row in rows.items():
                row.runs.setdefault(mode, []).append(found[name])
    return [row.summary(name) for name, row in rows.items()]
