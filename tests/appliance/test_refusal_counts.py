"""Counts of refused requests: strangers cannot make records without end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from appliance.api import refusals
from appliance.api.refusals import OTHERS, Counted, Refusal, attempted_account
from appliance.audit import refusal_records
from appliance.audit.models import AuditRecord
from appliance.controller import audit_job


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


def add_of_account(
    actor: str, *, address: str = "a", code: str = "denied", action: str = "", object_id: str = ""
) -> None:
    refusal = Refusal(actor, address, code, action, token_id="token", object_id=object_id)
    refusals.add([Counted(refusal, 60, 1)])


def test_strangers_with_many_addresses_hide_no_account() -> None:
    for n in range(refusals.MAX_KEYS + 50):
        add(actor=f"invented {n}", address=f"198.51.{n // 256}.{n % 256}")
    add_of_account("mallory", address="b", action="users_destroy")
    found = [c.refusal for c in refusals.drain() if c.refusal.actor == "mallory"]
    assert [(r.address, r.action) for r in found] == [("b", "users_destroy")]


def test_client_with_a_network_of_ipv6_counts_as_one() -> None:
    for n in range(1000):
        add(actor=f"invented {n}", address=f"2001:db8::{n:x}")
    found = drained()
    assert len(found) == refusals.MAX_KEYS_BY_ADDRESS + 1
    assert found["2001:db8::/64", OTHERS] == 1000 - refusals.MAX_KEYS_BY_ADDRESS


def test_first_refusal_of_an_account_hides_no_other_one() -> None:
    for action in ("nodes_list", "users_destroy", "users_destroy"):
        add_of_account("mallory", action=action)
    assert {c.refusal.action: c.count for c in refusals.drain()} == {
        "nodes_list": 1,
        "users_destroy": 2,
    }


def test_account_that_varies_its_refusals_stays_named() -> None:
    for n in range(1000):
        add_of_account("mallory", address=f"2001:db8::{n:x}", action=f"action {n}")
    add_of_account("alice", address="2001:db8::1", action="nodes_list")
    found = {(c.refusal.actor, c.refusal.address, c.refusal.action) for c in refusals.drain()}
    assert {actor for actor, *_ in found} == {"mallory", "alice"}
    assert ("mallory", "", "") in found and ("alice", "2001:db8::1", "nodes_list") in found
    assert len(found) == refusals.MAX_CHANGES_BY_ACCOUNT + refusals.MAX_ACTIONS_BY_ACCOUNT + 2


def test_many_refused_reads_hide_no_refused_change() -> None:
    for n in range(500):
        add_of_account("mallory", object_id=str(n), action="users_retrieve")
    add_of_account("mallory", address="a", object_id="7", action="users_destroy")
    found = [(c.refusal.address, c.refusal.object_id) for c in refusals.drain()]
    assert ("a", "7") in found and len(found) == refusals.MAX_READS_BY_ACCOUNT + 2


def test_refused_changes_beyond_the_limit_keep_their_action() -> None:
    for n in range(500):
        add_of_account("mallory", object_id=str(n), action="users_update")
    add_of_account("mallory", object_id="7", action="users_destroy")
    found = {(c.refusal.action, c.refusal.object_id): c.count for c in refusals.drain()}
    assert found["users_destroy", ""] == 1
    assert found["users_update", ""] == 500 - refusals.MAX_CHANGES_BY_ACCOUNT


@pytest.mark.parametrize("name", ["system", "OTHERS", "\x1b[2J", "a\u202eb", "a\0b", "a\u2028b"])
def test_invented_account_controls_no_terminal_and_is_not_the_appliance(name: str) -> None:
    text = attempted_account({"username": name})
    assert text.isprintable() and not refusals.is_reserved(text) and len(text) <= 150


def test_refusal_that_the_database_refuses_stops_neither_others_nor_seals(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL stores no NUL character. It must not be tried again forever."""
    add(actor="poison", address="a")
    add(actor="bob", address="b")
    insert = refusal_records.insert_refusal

    def refuse(one: Counted, at: datetime) -> None:
        if one.refusal.actor == "poison":
            raise ValueError("A string literal cannot contain NUL (0x00) characters.")
        insert(one, at)

    monkeypatch.setattr(refusal_records, "insert_refusal", refuse)
    audit_job.write_counts()
    assert list(AuditRecord.objects.values_list("actor", flat=True)) == ["bob"]
    assert refusals.drain() == []
