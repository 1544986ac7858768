"""Full pools on 5 % of a core, a part of `./test --long soak`.

A program copies, records events and makes streams on several threads until all pools are used up.
It and its session server are stopped until they have used 5 % of a core. Work must complete all the
time, also the copies of one more thread, which waits for each of them.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from deploy.supervisor import wait_for
from tests.remoting.conftest import compile_program
from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode

SHARE = 0.05
"""Of a core, for the program and its session server together."""
RUNNING_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.5
"""If a busy machine gives the processes more time at once, they pay it back later."""
LONGEST_GAP_SECONDS = 5.0
LONGEST_ROUND_TRIP_SECONDS = 10.0
"""A copy there and back: it waits for the records of the other threads three times."""
PATIENCE_SECONDS = 120.0
PROCESS_CLOCK = 2
"""Kind of the clocks that Linux has for the processor time of each process."""


def processor_seconds(pids: Iterable[int]) -> float:
    """Return the processor time that running processes have used."""
    return sum(time.clock_gettime(~pid << 3 | PROCESS_CLOCK) for pid in pids)


def starve(program: subprocess.Popen[str], server: int, seconds: float, share: float) -> float:
    """Let both processes together use a share of a core for some time, or until the program ends.

    Returns the share of a core that they used.
    """
    pids = (program.pid, server)
    begin, before, used = time.monotonic(), processor_seconds(pids), 0.0
    while (elapsed := time.monotonic() - begin) < seconds and program.poll() is None:
        used = processor_seconds(pids) - before
        signal_all(pids, signal.SIGSTOP)
        time.sleep(min(max(used / share - elapsed, 0), LONGEST_PAUSE_SECONDS))
        signal_all(pids, signal.SIGCONT)
        time.sleep(RUNNING_SECONDS)
    return used / elapsed


def signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Run(NamedTuple):
    """Result of the program in one mode."""

    longest_gap_seconds: float
    """Without a completion; infinite if the program failed."""
    longest_round_trip_seconds: float
    used_share: float
    """Of a core."""
    problem: str
    """Empty for correct results in time."""


def run_mode(node: LocalNode, binary: Path, mode: str, seconds: float, share: float) -> Run:
    errors = binary.parent / f"{mode}.err"
    with errors.open("w") as stderr:
        program = subprocess.Popen(
            [binary, "mix", f"{seconds:.0f}"],
            env=node.remote_environment(**MODES[mode]),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

    def has_begun() -> bool:
        """Return whether the program measures its gaps: its start is not part of them."""
        return "mix: begun" in errors.read_text() or program.poll() is not None

    wait_for("the first copies", has_begun, errors, 30)
    server = next((s.pid for s in node.sessions() if s.client_pid == program.pid), 0)
    used = starve(program, server, seconds, share) if server else 0.0
    try:
        out, _ = program.communicate(timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        out, _ = program.communicate()
    err = errors.read_text()
    found = re.search(r"longest gap (\S+) s, longest round trip (\S+) s", out)
    if not found or not out.startswith("mix: passed"):
        return Run(math.inf, math.inf, used, f"{mode}: the program failed: {out}{err[-2000:]}")
    gap, round_trip = float(found[1]), float(found[2])
    problem = ""
    if gap > LONGEST_GAP_SECONDS:
        problem = f"{mode}: no completion for {gap} s"
    elif round_trip > LONGEST_ROUND_TRIP_SECONDS:
        problem = f"{mode}: a copy there and back took {round_trip} s"
    return Run(gap, round_trip, used, problem)


def run_modes(seconds: float, share: float = SHARE) -> dict[str, Run]:
    """Run with shared memory and with TLS for half of the time each."""
    node = LocalNode()
    try:
        binary = compile_program("backpressure", node.folder)
        return {
            mode: run_mode(node, binary, mode, seconds / 2, share)
            for mode in ("shared memory", "TLS")
        }
    finally:
        node.stop()


def soak(seconds: float, share: float = SHARE) -> list[str]:
    """Return the problems of all modes."""
    runs = run_modes(seconds, share)
    for mode, run in runs.items():
        gap, used = run.longest_gap_seconds, run.used_share
        print(
            f"{mode}: longest gap {gap} s, longest round trip {run.longest_round_trip_seconds} s;"
            f" {used:.1%} of a core",
            flush=True,
        )
    return [run.problem for run in runs.values() if run.problem]
