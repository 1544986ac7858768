"""The steps that `./bench partitions` assigns to periods, and what it says of them."""

from __future__ import annotations

import ctypes
import json
import subprocess
import time

from deploy.supervisor import BUILD, wait_for
from remoting.bench.partitions.neighbour_rows import ALONE, FAIR, step_rows
from remoting.bench.partitions.resize_rows import PERIODS, Measured, Period, period_rows, ratio_row
from remoting.bench.partitions.rows import Row, line_of
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
    compared = ratio_row("steps", [Period([1.1 * s for s in steps])], base, 0.5, control=1)
    assert compared["value"] == 1.1 and compared["verdict"] == "missed"
    assert compared["steps"] == [100, 100]
    assert compared["stalled_steps"] == [2, 0]


def resized(**steps: list[float]) -> dict[str, Row]:
    """Return the rows of steps of a machine that is quiet but for these periods, by name."""
    periods = {name: Period(steps.get(name, [0.4] * 100)) for name in PERIODS}
    rows = period_rows("steps", Measured(periods, wrong=0, load=1))
    return {str(r["name"]).removeprefix("resize steps: "): r for r in rows}


def test_rows_of_a_control_that_differs_are_void() -> None:
    assert {r["verdict"] for r in resized().values()} == {"met"}
    disturbed = [0.4] * 98 + [0.4 * 1.04] * 2
    for rows in (resized(unchanged=disturbed), resized(before=disturbed)):
        void = {name for name, r in rows.items() if r["verdict"] == "void"}
        assert void == {f"p99 step, {period}/before" for period in PERIODS[1:]}


def test_row_of_more_than_a_few_stalled_steps_is_void() -> None:
    def line(stalled: int, control: float) -> str:
        period = Period([0.4] * 100, stalled)
        return line_of(ratio_row("steps", [period], [Period([0.4] * 100)], 0.5, control))

    assert line(3, control=1).endswith(" met")
    assert line(4, control=1.04).endswith(" void: control 1.04, 4 stalled steps")


def test_row_without_steps_is_void_and_has_no_value() -> None:
    rows = resized(during=[])
    assert rows["p50 step, during/before"]["verdict"] == "void"
    assert rows["p99 step, during/before"]["value"] is None
    assert rows["p99 step, after/before"]["verdict"] == "met"
    assert json.loads(json.dumps(list(rows.values()), allow_nan=False))


def test_share_that_is_lost_beside_each_neighbour_is_missed() -> None:
    def verdicts(beside: float) -> list[object]:
        found = {ALONE: [0.25] * 40, FAIR: [beside] * 100, "copies": [beside] * 100}
        return [r["verdict"] for r in step_rows(found)]

    assert verdicts(0.5) == ["met", "met"]
    assert verdicts(0.6) == ["missed", "met"]
