"""The steps that `./bench partitions` assigns to periods, and the errors of its quantiles."""

from __future__ import annotations

import subprocess

from deploy.supervisor import BUILD, wait_for
from remoting.bench.partitions.resize_rows import Steps, ratio_row
from remoting.bench.partitions.rows import quantile_error

SECOND = 10**9


def test_step_during_which_a_period_begins_or_ends_touches_it() -> None:
    ends = [str(second * SECOND) for second in (0, 1, 3, 6, 10)]
    command = ["printf", "%s\\n", *ends]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        steps = Steps(process)
        wait_for("the steps", lambda: len(steps.ends) == len(ends), BUILD)
    assert steps.touching(2 * SECOND, 4 * SECOND) == [2, 3]
    assert steps.between(SECOND, 6 * SECOND) == [2, 3]
    assert steps.between(2 * SECOND, 6 * SECOND) == [3]


def test_error_of_a_quantile_falls_with_the_root_of_the_number_of_values() -> None:
    few, many = ([1 + n / count for n in range(count)] for count in (1000, 100_000))
    error_of_few, error_of_many = (quantile_error(values, 0.5) for values in (few, many))
    assert error_of_few and error_of_many and 9 < error_of_few / error_of_many < 11
    assert quantile_error([5.0] * 440, 0.99) == 0


def test_error_of_a_median_is_from_ranks_of_the_binomial_distribution() -> None:
    ranks = [float(n) for n in range(1, 101)]
    assert quantile_error(ranks, 0.5) == (60 - 40) / 2 / 51


def test_quantile_that_may_exceed_all_values_has_no_error() -> None:
    assert quantile_error([5.0] * 46, 0.99) is None
    steps = [0.2] * 46
    assert ratio_row("steps", steps, steps, 0.99)["error"] is None


def test_row_compares_quantiles_and_states_their_error() -> None:
    base = [0.2 + n / 10_000 for n in range(100)]
    found = ratio_row("steps", [1.1 * b for b in base], base, 0.5)
    assert found["value"] == 1.1 and not found["met"]
    assert found["steps"] == [100, 100]
    error = quantile_error(base, 0.5)
    assert error and found["error"] == round(2**0.5 * error, 3)
