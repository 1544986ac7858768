"""Resizes that are refused: values that are no size, in REST and in the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

from appliance.accounts.models import User
from appliance.activity.models import Task
from appliance.inventory.models import Node
from tests.appliance.commands_in_process import Busbar, BusbarOf
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.test_resizing import URL, Client, kinds, taken

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))


@pytest.fixture
def alice(cast: Cast, client_of: Clients, add_node: Callable[..., Node]) -> Client:
    return Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))


@pytest.fixture
def busbar_of_alice(alice: Client, busbar_of: BusbarOf) -> Busbar:
    return busbar_of(alice.client)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("percent", -1),
        ("percent", 101),
        ("percent", 2.5),
        ("percent", "half"),
        ("percent", None),
        ("memory_bytes", -1),
        ("memory_bytes", (1 << 50) + 1),
        ("memory_bytes", "8GiB"),
        ("memory_bytes", None),
    ],
)
def test_value_that_is_no_size_is_refused_with_its_field(
    alice: Client, field: str, value: object
) -> None:
    pk = alice.allocate(percent=20)
    before = alice.read(pk)
    refused = alice.resize(pk, 400, **{field: value})
    assert refused["code"] == "invalid" and [e["pointer"] for e in refused["errors"]] == [
        f"/{field}"
    ]
    assert alice.read(pk) == before and taken() == (20, 2 * GIB) and kinds(pk) == []


def test_too_much_memory_is_refused_with_the_most_in_tib(alice: Client) -> None:
    refused = alice.resize(alice.allocate(percent=20), 400, memory_bytes=(1 << 50) + 1)
    assert refused["errors"][0]["message"] == "It is more than 1024 TiB, the most."


@pytest.mark.parametrize("size", [{"percent": 0}, {"percent": 0, "memory_bytes": 0}])
def test_size_of_nothing_is_refused(alice: Client, size: dict[str, int]) -> None:
    pk = alice.allocate(percent=20)
    before = alice.read(pk)
    assert "must not both be 0" in alice.resize(pk, 400, **size)["detail"]
    assert alice.read(pk) == before and taken() == (20, 2 * GIB) and kinds(pk) == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("-m 8", 'Did you mean "8GiB"'),
        ("-m=-1GiB", "--memory"),
        ("-m 11GiB", "One of its GPUs has 10240 MiB"),
        ("-p 0", "--memory"),
        ("-p 0 -m 0B", "--memory"),
        ("-p 101", "--percent"),
        ("-p=-1", "--percent"),
        ("-p half", "--percent"),
        ("--mode best", '--mode: "best" is none of shared, capped, guaranteed, exclusive.'),
        ("-m 1025TiB", "more than 1024TiB"),
        ("-p 0 -m 0", "With percent 0 give --memory as well; with --memory 0 give percent."),
        ("-p 30 --wait 2m", "more than 60s"),
    ],
)
def test_command_refuses_what_is_no_size_and_changes_nothing(
    alice: Client, busbar_of_alice: Busbar, line: str, text: str
) -> None:
    pk = alice.allocate(percent=20)
    before = alice.read(pk)
    done = busbar_of_alice("resize", pk, *line.split())
    assert done.status != 0 and text in done.err, done
    assert alice.read(pk) == before and kinds(pk) == []


def test_allocation_that_waits_for_its_first_gpu_has_no_size_to_change(
    alice: Client, busbar_of_alice: Busbar
) -> None:
    alice.allocate(percent=90)
    waiting = alice.client.post(URL, {"percent": 20}, format="json").json()["id"]
    done = busbar_of_alice("resize", waiting, "-p", "10")
    assert done.status != 0 and "is queued; only an active allocation" in done.err
    assert alice.read(waiting)["state"] == "queued" and alice.read(waiting)["percent"] == 20


def test_refusal_to_cancel_the_task_tells_how_to_withdraw_the_resize(alice: Client) -> None:
    small, _ = alice.allocate(percent=30), alice.allocate(percent=60)
    alice.resize(small, percent=90)
    task = Task.objects.get(kind="allocation.resize")
    refused = alice.client.post(f"/api/v1/tasks/{task.pk}/cancel")
    assert refused.status_code == 409
    assert "to its present size and mode withdraws" in body(refused)["detail"]
