"""The expected start of a resize that waits, and why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from appliance.accounts.models import User
from appliance.inventory.models import Node
from tests.appliance.conftest import GIB, Cast, body
from tests.appliance.test_resizing import URL, Client

Clients = Callable[[User | None], Any]


@pytest.fixture
def alice(cast: Cast, client_of: Clients, add_node: Callable[..., Node]) -> Client:
    return Client(client_of(cast.alice), add_node(memory_bytes=10 * GIB))


def test_forecast_of_a_resize_is_the_end_of_another_allocation(alice: Client) -> None:
    small = alice.allocate(percent=30)
    alice.allocate(percent=60, lifetime_seconds=3600)
    alice.resize(small, percent=50)
    explained = body(alice.client.get(f"{URL}/{small}/explanation"))
    assert explained["expected_start_at"] is not None


@pytest.mark.parametrize(
    ("end_of_other", "reason"),
    [(7200, "not before it ends itself"), (None, "no end time is set"), (1800, "")],
)
def test_explanation_tells_whether_the_room_comes_after_the_own_end(
    alice: Client, end_of_other: int | None, reason: str
) -> None:
    small = alice.allocate(percent=30, lifetime_seconds=3600)
    alice.allocate(percent=60, lifetime_seconds=end_of_other)
    alice.resize(small, percent=50)
    explained = body(alice.client.get(f"{URL}/{small}/explanation"))
    assert explained["expected_start_reason"] == reason
    assert (explained["expected_start_at"] is None) == bool(reason)
