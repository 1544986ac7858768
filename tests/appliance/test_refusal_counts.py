"""Counts of refused requests: strangers cannot make records without end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from appliance.api import refusals
from appliance.api.refusals import OTHERS, Counted, Refusal


@pytest.fixture(autouse=True)
def no_counts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(refusals, "_counts", {})
    monkeypatch.setattr(refusals, "_minutes", {})
    yield
    refusals.drain()


def add(*, actor: str, address: str, minute: int = 60) -> None:
    refusals.add([Counted(Refusal(actor, address, "unauthenticated"), minute, 1)])


def drained() -> dict[tuple[str, str], int]:
    return {(c.refusal.address, c.refusal.actor): c.count for c in refusals.drain()}


def test_equal_refusals_are_counted_together() -> None:
    for _ in range(3):
        add(actor="alice", address="a")
    assert drained() == {("a", "alice"): 3}


def test_invented_users_of_one_address_share_a_record() -> None:
    """The limit holds for the minute, not from one `drain` to the next."""
    for n in range(100):
        add(actor=f"invented {n}", address="a")
        refusals.drain() if n == 50 else None
    add(actor="bob", address="b")
    found = drained()
    assert found == {("a", OTHERS): 49, ("b", "bob"): 1}


def test_known_user_of_a_flooding_address_is_still_counted() -> None:
    add(actor="alice", address="a")
    for n in range(100):
        add(actor=f"invented {n}", address="a")
    add(actor="alice", address="a")
    assert drained()["a", "alice"] == 2


def test_addresses_beyond_the_limit_share_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refusals, "MAX_KEYS", 10)
    for n in range(30):
        add(actor="alice", address=f"address {n}")
    found = drained()
    assert len(found) == 11 and found["", OTHERS] == 20
    add(actor="alice", address="address 29", minute=120)
    assert drained() == {("address 29", "alice"): 1}, "each minute begins anew"
    for minute in range(180, 6000, 60):
        add(actor="alice", address="a", minute=minute)
    assert len(refusals._minutes) == refusals.MAX_MINUTES
