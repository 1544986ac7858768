"""More copies, events and streams than any pool holds, a part of `./test --long soak`."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.remoting.conftest import compile_program
from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode

COUNTS = {
    "copies_in": 1_000_000,
    "both_ways": 1_000_000,
    "blocked_stream": 80_000,
    "events": 100_000,
    "streams": 10_000,
    "all_pools": 1_000_000,
}
"""Copies, events or streams of each case of backpressure.c."""
SECONDS = 200


def problem(program: Path, name: str, environment: dict[str, str], count: int) -> str:
    """Return why a case failed; empty for a correct result in time."""
    try:
        done = subprocess.run(
            [program, name, str(count)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    return "" if done.stdout == f"{name}: passed\n" else done.stdout + done.stderr[-2000:]


def run_all() -> list[str]:
    """Run all cases in all modes. Return the failures."""
    problems = []
    node = LocalNode()
    try:
        program = compile_program("backpressure", node.folder)
        for name, count in COUNTS.items():
            for mode, environment in MODES.items():
                begin = time.monotonic()
                if text := problem(program, name, node.remote_environment(**environment), count):
                    problems.append(f"{name}, {mode}: {text}")
                print(f"{name}, {mode}: {time.monotonic() - begin:.1f} s {text}", flush=True)
    finally:
        node.stop()
    return problems
