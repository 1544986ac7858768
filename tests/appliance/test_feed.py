"""The hub: who may see a change, and what a slow socket gets."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from appliance.activity.consumers import scope_of
from appliance.activity.feed import (
    KEPT_SECONDS,
    MAX_KEPT,
    MAX_QUEUED,
    NO_PROJECT,
    Hub,
    Scope,
    Subscriber,
)
from tests.appliance.conftest import Cast

ALL = Scope(frozenset({"inventory.view", "allocations.view"}), {})


def hub_with(project: uuid.UUID | None = None, privilege: str = "inventory.view") -> Hub:
    hub = Hub()
    hub.register("thing", lambda ids: [(i, privilege, project, {"id": str(i)}) for i in ids])
    return hub


@pytest.fixture
def loop() -> Any:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def drained(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(asyncio.sleep(0))


@pytest.mark.django_db(transaction=True)
def test_only_who_may_see_the_project_gets_its_rows(
    cast: Cast, loop: asyncio.AbstractEventLoop
) -> None:
    from appliance.accounts.models import Project

    project = Project.objects.get(name="default")
    hub = hub_with(project.pk, "allocations.view")
    sockets = {
        name: Subscriber(loop, scope_of(getattr(cast, name)))
        for name in ("alice", "bob", "charlie", "olga", "vera", "admin")
    }
    for s in sockets.values():
        hub.join(s)
    hub.changed("thing", uuid.uuid4())
    drained(loop)
    assert {name for name, s in sockets.items() if s.waiting} == {
        "alice",
        "bob",
        "olga",
        "vera",
        "admin",
    }


@pytest.mark.django_db(transaction=True)
def test_what_belongs_to_no_project_of_a_tenant_is_not_shown_to_tenants(
    cast: Cast, loop: asyncio.AbstractEventLoop
) -> None:
    hub = hub_with(NO_PROJECT, "activity.view")
    alice, olga = Subscriber(loop, scope_of(cast.alice)), Subscriber(loop, scope_of(cast.olga))
    hub.join(alice)
    hub.join(olga)
    hub.changed("thing", uuid.uuid4())
    drained(loop)
    assert not alice.waiting and olga.waiting and len(olga.waiting.changes) == 1


@pytest.mark.django_db(transaction=True)
def test_a_slow_socket_is_told_to_read_again_and_its_queue_stays_bounded(
    loop: asyncio.AbstractEventLoop,
) -> None:
    hub = hub_with()
    slow = Subscriber(loop, ALL)
    hub.join(slow)
    for _ in range(MAX_QUEUED + 10):
        hub.changed("thing", uuid.uuid4())
    drained(loop)
    assert slow.overflown and (slow.waiting is None or len(slow.waiting.changes) <= MAX_QUEUED)


@pytest.mark.django_db(transaction=True)
def test_nothing_is_read_while_nobody_listens_and_a_gap_is_never_called_whole(
    loop: asyncio.AbstractEventLoop,
) -> None:
    read: list[uuid.UUID] = []
    hub = Hub()
    hub.register(
        "thing", lambda ids: read.extend(ids) or [(i, "inventory.view", None, {}) for i in ids]
    )  # type: ignore[func-returns-value]
    before = hub.sequence
    hub.changed("thing", uuid.uuid4())
    assert read == []
    assert hub.join(Subscriber(loop, ALL), hub.epoch, before) is False, (
        "a change was missed that nobody kept"
    )
    assert hub.join(Subscriber(loop, ALL), hub.epoch, hub.sequence) is True
    for _ in range(MAX_KEPT + 1):
        hub.changed("thing", uuid.uuid4())
    assert hub.join(Subscriber(loop, ALL), hub.epoch, hub.sequence - MAX_KEPT - 1) is False
    assert hub.join(Subscriber(loop, ALL), hub.epoch, hub.sequence - MAX_KEPT) is True


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_back_is_never_told(loop: asyncio.AbstractEventLoop) -> None:
    from django.db import transaction

    hub = hub_with()
    socket = Subscriber(loop, ALL)
    hub.join(socket)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        hub.changed("thing", uuid.uuid4())
        1 / 0  # noqa: B018 - the reason for rolling back
    drained(loop)
    assert not socket.waiting


@pytest.mark.django_db(transaction=True)
def test_who_catches_up_gets_the_newest_of_each_in_order(loop: asyncio.AbstractEventLoop) -> None:
    hub, (first, second) = hub_with(), (uuid.uuid4(), uuid.uuid4())
    hub.join(Subscriber(loop, ALL))
    before = hub.sequence
    for changed in (first, second, first):
        hub.changed("thing", changed)
    late = Subscriber(loop, ALL)
    assert hub.join(late, hub.epoch, before) and late.waiting
    assert [(c.id, c.sequence) for c in late.waiting.changes.values()] == [
        (str(second), before + 2),
        (str(first), before + 3),
    ]


@pytest.mark.django_db(transaction=True)
def test_changes_are_kept_a_while_for_the_last_one_to_come_back_to(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, only = hub_with(), Subscriber(loop, ALL)
    hub.join(only)
    hub.leave(only)
    before = hub.sequence
    hub.changed("thing", uuid.uuid4())
    back = Subscriber(loop, ALL)
    assert hub.join(back, hub.epoch, before) and back.waiting and len(back.waiting.changes) == 1
    hub.leave(back)
    later = time.monotonic() + KEPT_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    hub.changed("thing", uuid.uuid4())
    assert not hub.join(Subscriber(loop, ALL), hub.epoch, before)
