"""The steps that `./bench partitions` assigns to periods, and what it says of them."""

from __future__ import annotations

import ctypes
import subprocess
import time

from deploy.supervisor import BUILD, wait_for
from remoting.bench.partitions.resize_rows import Period, ratio_row
from remoting.bench.partitions.stalls import LEAST_SECONDS, watched_stalls
from remoting.bench.partitions.steps import Span, Steps, overlap

SECOND = 10**9


def spans(*seconds: tuple[int, int]) -> list[Span]:
    return [(begin * SECOND, end * SECOND) for begin, end in seconds]


def test_step_during_which_a_period_begins_or_ends_touches_it() -> None:
    ends = [str(second * SECOND) for second in (0, 1, 3, 6, 10)]
    command = ["printf", "%s\\n", *ends]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        steps = Steps(process)
        wait_for("the steps", lambda: len(steps.ends) == len(ends), BUILD)
    assert steps.touching(2 * SECOND, 4 * SECOND) == spans((1, 3), (3, 6))
    assert steps.between(SECOND, 6 * SECOND) == spans((1, 3), (3, 6))
    assert steps.between(2 * SECOND, 6 * SECOND) == spans((3, 6))


def test_step_in_which_the_machine_stalls_is_counted_and_left_out() -> None:
    period = Period()
    assert not period.add(spans((0, 1), (1, 3)), spans((4, 5)))
    assert period.add(spans((3, 6), (6, 10)), spans((4, 5)))
    assert (period.steps, period.stalled) == ([1, 2, 4], 1)


def test_time_in_which_no_thread_runs_is_a_stall() -> None:
    with watched_stalls() as stalls:
        began = time.monotonic_ns()
        ctypes.PyDLL(None).usleep(int(3e6 * LEAST_SECONDS))  # it keeps the GIL
        ended = time.monotonic_ns()
        wait_for("the stall", lambda: bool(stalls), BUILD)
    assert any(overlap(stall, (began, ended)) for stall in stalls)


def test_row_compares_quantiles_of_the_steps_of_all_periods() -> None:
    steps = [0.2 + n / 10_000 for n in range(100)]
    base = [Period(steps[:50], stalled=1), Period(steps[50:], stalled=1)]
    compared = ratio_row("steps", [Period([1.1 * s for s in steps])], base, 0.5)
    assert compared["value"] == 1.1 and not compared["met"]
    assert compared["steps"] == [100, 100]
    assert compared["stalled_steps"] == [2, 0]
