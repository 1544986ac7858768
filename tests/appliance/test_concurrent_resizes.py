"""Resizes that arrive at the same time, on PostgreSQL, which has several writers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from appliance.accounts.models import User
from appliance.allocations import resizing, scheduler
from appliance.allocations.models import Partition
from appliance.inventory.models import Gpu, Node
from tests.appliance.conftest import GIB, Cast
from tests.appliance.test_resizing import URL, Client, kinds, taken

Clients = Callable[[User | None], Any]
pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def alice(cast: Cast, client_of: Clients, add_node: Callable[..., Node]) -> Client:
    return Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))


def resize_at_once(alice: Client, *sizes: tuple[str, int]) -> list[int]:
    """Send resizes of allocations to a percent at the same time. Return the sorted statuses."""
    barrier, seen = threading.Barrier(len(sizes)), []

    def resize(pk: str, percent: int) -> None:
        barrier.wait(20)
        response = alice.client.patch(f"{URL}/{pk}", {"percent": percent}, format="json")
        seen.append(response.status_code)
        connection.close()

    threads = [threading.Thread(target=resize, args=size) for size in sizes]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sorted(seen)


def test_concurrent_resizes_grant_one_after_the_other(alice: Client) -> None:
    first, second = alice.allocate(percent=30), alice.allocate(percent=30)
    assert set(resize_at_once(alice, (first, 60), (second, 60))) <= {202, 409}
    scheduler.run_tick()
    gpu = Gpu.objects.get()
    percents = list(Partition.objects.values_list("compute_percent", flat=True))
    assert sum(percents) == gpu.taken_percent <= 100 and sorted(percents) == [30, 60]


def test_second_of_two_resizes_that_read_the_same_size_is_a_conflict(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pk = alice.allocate(percent=30)
    both_have_read, request_size = threading.Barrier(2), resizing.request_size

    def wait_and_request(*arguments: Any) -> None:
        both_have_read.wait(20)
        request_size(*arguments)

    monkeypatch.setattr(resizing, "request_size", wait_and_request)
    assert resize_at_once(alice, (pk, 40), (pk, 60)) == [202, 409]
    percent, memory_bytes = alice.granted(pk)
    assert percent in {40, 60} and alice.read(pk)["percent"] == percent
    assert taken() == (percent, memory_bytes) == (percent, percent * GIB // 10)
    assert kinds(pk).count("resized") == 1
