"""Sizes of zero in command lines are refused, and not taken for sizes that are not given."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests.appliance.commands_in_process import Busbar

pytestmark = [
    pytest.mark.django_db(databases=list(settings.DATABASES)),
    pytest.mark.usefixtures("alice"),  # a pool without nodes refuses requests
]


@pytest.mark.parametrize(
    ("line", "option"),
    [
        (["run", "--timeout", "1s", "-p", "0", "--", "true"], "--percent"),
        (["run", "--timeout", "1s", "-m", "0B", "--", "true"], "--memory"),
        (["run", "-n", "0", "--", "true"], "--gpus"),
        (["run", "--lifetime", "0", "--", "true"], "--lifetime"),
        (["allocation", "create", "-p", "0", "--lifetime", "1h"], "--percent"),
        (["token", "create", "ci", "--lifetime", "0"], "--lifetime"),
        (["node", "add", "ssh://root@192.0.2.1:0", "--agent"], "port"),
        (["reservation", "create", "r", "--from", "x", "--to", "y", "-n", "0"], "--gpus"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_size_of_zero_is_refused_and_not_taken_for_none(
    busbar: Busbar, line: list[str], option: str
) -> None:
    done = busbar(*line)
    assert done.status == 2 and option in done.err, done
