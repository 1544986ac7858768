"""Options of numbers that an object need not have."""

from __future__ import annotations

import json

import pytest

from tests.appliance.commands_in_process import Busbar


def limit_of(busbar: Busbar) -> float | None:
    (row,) = json.loads(busbar("quota", "list", "-o", "json").out)
    limit: float | None = row["limit_gpus"]
    return limit


def test_number_is_cleared(busbar: Busbar) -> None:
    for given, expected in (("4", 4), ("none", None), ("0", 0)):
        done = busbar("quota", "set", "project/default", "--limit", given)
        assert done.status == 0 and limit_of(busbar) == expected, done


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("many", '"many" is neither a number nor none.'),
        ("nan", '"nan" is neither a number nor none.'),
        ("1e400", '"1e400" is neither a number nor none.'),
        ("", '"" is neither a number nor none.'),
        ("-1", "--limit: "),
    ],
)
def test_other_value_is_refused(busbar: Busbar, value: str, message: str) -> None:
    done = busbar("quota", "set", "project/default", "--limit", value)
    assert done.status == 2 and message in done.err, done
