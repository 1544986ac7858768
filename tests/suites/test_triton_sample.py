"""The sample of Triton's cases: the same in each order, with a case of each function."""

from __future__ import annotations

from tests.suites.adapters.triton_sample import SHARE, TOO_LONG, sample

FILE = "test_core.py"
CASES = [f"{FILE}::test_dot[{i}]" for i in range(3 * SHARE)]


def test_every_function_has_a_case_and_one_more_for_each_share() -> None:
    kept = sample([*CASES, f"{FILE}::test_alone", f"{FILE}::test_pair[0]", f"{FILE}::test_pair[1]"])
    functions = sorted(name.split("::")[1].split("[")[0] for name in kept)
    assert functions == ["test_alone", *["test_dot"] * 4, "test_pair"]


def test_sample_depends_on_names_only() -> None:
    assert sample(CASES) == sample(reversed(CASES))
    assert sample(CASES) != set(CASES[:4])


def test_functions_that_take_hours_are_left_out() -> None:
    assert sample([f"{FILE}::{name}" for name in TOO_LONG]) == set()
