"""Refusals of values name options and arguments of the command, never fields of REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.inventory.models import Node
from tests.appliance.commands_in_process import Busbar, busbar_for
from tests.appliance.conftest import Cast
from tests.appliance.test_suspending import Client

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


@pytest.fixture
def busbar(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Busbar:
    add_node()
    return busbar_for(client_of(cast.admin), monkeypatch, capsys)


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


def test_size_of_an_allocation_cannot_be_zero_in_both(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    alice = Client(client_of(cast.alice), add_node())
    busbar = busbar_for(alice.client, monkeypatch, capsys)
    done = busbar("resize", alice.allocate(), "-p", "0", "-m", "0B")
    assert done.status == 2 and "--memory" in done.err, done
