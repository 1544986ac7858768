"""The change log: order, numbers and rollbacks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from appliance.db import change_log
from appliance.db.change_log import Change, Topic
from appliance.db.writer import dry_run, run_in_transaction

pytestmark = pytest.mark.django_db(transaction=True)
FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture
def committed() -> Iterator[list[tuple[int, Change]]]:
    seen: list[tuple[int, Change]] = []
    unsubscribe = change_log.subscribe_all(lambda number, change: seen.append((number, change)))
    yield seen
    unsubscribe()


@pytest.fixture
def pending(monkeypatch: pytest.MonkeyPatch) -> list[Change]:
    seen: list[Change] = []
    monkeypatch.setitem(change_log._subscriptions.pending, Topic.TASK, [seen.append])
    return seen


def record_both() -> None:
    change_log.record(Topic.TASK, FIRST)
    change_log.record(Topic.TASK, SECOND)


def fail() -> None:
    record_both()
    raise ZeroDivisionError


def test_committed_changes_are_numbered_in_order(committed: list[tuple[int, Change]]) -> None:
    before = change_log.sequence()
    run_in_transaction(record_both)
    assert committed == [
        (before + 1, Change(Topic.TASK, FIRST)),
        (before + 2, Change(Topic.TASK, SECOND)),
    ]
    assert change_log.sequence() == before + 2


def test_changes_are_not_passed_on_before_the_commit(committed: list[Any]) -> None:
    with transaction.atomic():
        record_both()
        assert committed == []
    assert len(committed) == 2


def test_rolled_back_changes_are_dropped(committed: list[Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        run_in_transaction(fail)
    assert committed == []


def test_dry_run_drops_changes(committed: list[Any]) -> None:
    assert dry_run(lambda: record_both() or "outcome") == "outcome"
    assert committed == []


def test_pending_readers_see_changes_when_recorded_and_when_rolled_back(
    pending: list[Change],
) -> None:
    with pytest.raises(ZeroDivisionError):
        run_in_transaction(fail)
    both = [Change(Topic.TASK, FIRST), Change(Topic.TASK, SECOND)]
    assert pending == [*both, *both]


def test_pending_readers_see_committed_changes_once(pending: list[Change]) -> None:
    run_in_transaction(record_both)
    change_log.roll_back()
    assert len(pending) == 2
