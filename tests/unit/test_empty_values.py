"""Options with an empty value are refused where it would mean that the option is not given."""

from __future__ import annotations

import pytest
from typer.core import TyperOption

from remoting.cli.empty_values import FREE_TEXTS
from tests.unit.test_hostile_values import LEAVES, status_of

EMPTY = [
    [*names, f"{p.opts[-1]}=" if isinstance(p, TyperOption) else ""]
    for names, command in LEAVES
    for p in command.params
    if p.default == "" and p.name not in FREE_TEXTS
]


@pytest.mark.parametrize("line", EMPTY, ids=" ".join)
def test_option_refuses_an_empty_value(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """With an unset variable of a script, a role would hold in the whole appliance."""
    assert status_of(line) == 2
    assert "is empty. Give a value, or leave it out." in capsys.readouterr().err


def test_options_that_select_an_object_are_among_them() -> None:
    for line in (["run", "--allocation="], ["role-binding", "create", "--project="]):
        assert line in EMPTY
