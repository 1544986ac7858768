"""Runs a part natively and remoted, in turn, and puts the outcomes side by side."""

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
    """Of one row: each mode's figures, or digests, one a run; and what went wrong."""

    unit: str = ""
    runs: dict[str, list[float | str]] = field(default_factory=dict)
    error: str = ""

    def summary(self, name: str) -> dict[str, Any]:
        """`native`, `shm` and `tls` are medians, `spread` the lowest and highest; of a digest `same` says whether all runs of all modes gave it."""
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


def outcome_of(part: Part, out: str) -> Mapping[str, float | str]:
    """Rows to what a run's output says of them. Raises ValueError when a row is missing."""
    if part.whole:
        return {part.digests[0]: out}
    last: dict[str, dict[str, float | str]] = json.loads(out.splitlines()[-1])
    if "figures" not in last and "digests" not in last:
        last = {"figures": last}  # programs of ./bench remoting print their figures alone
    found = {**last.get("figures", {}), **last.get("digests", {})}
    if missing := {*part.figures, *part.digests} - found.keys():
        raise ValueError(f"says nothing of {sorted(missing)}")
    return found


def run_once(part: Part, command: list[str | Path], env: Environment) -> Mapping[str, float | str]:
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    if done.returncode:
        raise ValueError(f"ended with {done.returncode}: {(done.stdout + done.stderr)[-400:]}")
    return outcome_of(part, done.stdout)


def run_part(
    part: Part, setting: Setting, modes: Mapping[str, Environment], repetitions: int
) -> list[dict[str, Any]]:
    """Every mode after the other, as often as asked, so that what changes with time falls on all of them alike."""
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
