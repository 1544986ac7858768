"""Refusals of values name options and arguments of the command, never fields of REST."""

from __future__ import annotations

import pytest
from django.conf import settings

from tests.appliance.commands_in_process import Busbar

pytestmark = [
    pytest.mark.django_db(databases=list(settings.DATABASES)),
    pytest.mark.usefixtures("alice"),  # a pool without nodes refuses requests
]


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        (["run", "--min-driver", "new", "--", "true"], ["--min-driver: "]),
        (["run", "--mode", "best", "--", "true"], ["--mode: "]),
        (["run", "-n", "16", "--", "true"], ["--allow-pending"]),
        (["allocation", "create", "-p", "5"], ["set --lifetime"]),
        (["token", "create", "ci", "--scope", "everything"], ["--scope: "]),
        (["token", "create", "ci", "--network", "here"], ["--network"]),
        (["pool", "create", "p", "--policy", "best"], ["--policy: "]),
        (["user", "create", "x" * 300], ["NAME: "]),
        (["reservation", "create", "r", "--from", "x", "--to", "y"], ["--from: ", "--to: "]),
    ],
    ids=lambda value: " ".join(value)[:40] if value[0].islower() else "",
)
def test_refusal_names_options_and_arguments(
    busbar: Busbar, line: list[str], texts: list[str]
) -> None:
    done = busbar(*line)
    assert done.status in (2, 4) and all(text in done.err for text in texts), done
    for rest in ("_", "  /", "see errors", "POST", "PATCH"):
        assert rest not in done.err, done


def test_refusal_of_any_operation_names_the_fields_of_rest(busbar: Busbar) -> None:
    done = busbar("api", "POST", "allocations", "-d", '{"gpu_count": 0}')
    assert done.status == 2 and "gpu_count: " in done.err, done
