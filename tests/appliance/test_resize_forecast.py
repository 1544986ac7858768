"""The expected start of a resize that waits, and why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from appliance.accounts.models import User
from appliance.allocations import eviction, forecast, suspending
from appliance.allocations.models import Allocation
from appliance.inventory.models import Node
from tests.appliance.commands_in_process import BusbarOf
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
    [(7200, "not before it ends itself"), (None, "the known end times do not suffice"), (1800, "")],
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


def test_explanation_of_a_suspended_resize_tells_that_it_waits_for_the_resumption(
    cast: Cast, alice: Client, busbar_of: BusbarOf
) -> None:
    small, _ = alice.allocate(percent=30), alice.allocate(percent=60)
    alice.resize(small, percent=50)
    suspending.begin(Allocation.objects.get(pk=small), cast.alice)
    assert busbar_of(alice.client)("explain", small).out.splitlines() == [
        suspending.WAITS_FOR_RESUMPTION,
        "Expected to start: unknown (not while the reason holds)",
    ]


def test_explanation_of_a_resize_with_notice_tells_that_the_allocation_ends(alice: Client) -> None:
    small, _ = alice.allocate(percent=30), alice.allocate(percent=60)
    alice.resize(small, percent=50)
    eviction.evict(allocation_id=UUID(small), reason="idle", grace_seconds=60)
    explained = body(alice.client.get(f"{URL}/{small}/explanation"))
    assert explained["expected_start_reason"] == "it ends before"


def test_explanation_tells_how_many_ends_the_forecast_considers(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forecast, "MAX_SIMULATED_ENDS", 1)
    small = alice.allocate(percent=30)
    for lifetime in (1800, 3600):
        alice.allocate(percent=30, lifetime_seconds=lifetime)
    alice.resize(small, percent=90)
    explained = body(alice.client.get(f"{URL}/{small}/explanation"))
    assert explained["expected_start_reason"] == "not before the next 1 end"
