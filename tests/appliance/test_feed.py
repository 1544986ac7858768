"""Visibility of changes, bounded queues and resumption of the hub."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

import pytest

from appliance.activity.consumers import scope_of
from appliance.activity.feed import (
    BUFFER_SECONDS_WITHOUT_SUBSCRIBERS,
    MAX_BUFFERED_CHANGES,
    MAX_QUEUED_CHANGES,
    NO_PROJECT,
    Hub,
    Scope,
    Subscriber,
)
from appliance.db.change_log import Change, Topic
from tests.appliance.conftest import Cast

ALL = Scope(frozenset({"inventory.view", "allocations.view"}), {})


def hub_with(project: uuid.UUID | None = None, privilege: str = "inventory.view") -> Hub:
    hub = Hub()
    hub.register("task", lambda ids: [(i, privilege, project, {"id": str(i)}) for i in ids])
    return hub


@pytest.fixture
def loop() -> Any:
    event_loop = asyncio.new_event_loop()
    yield event_loop
    event_loop.close()


def drain(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(asyncio.sleep(0))


@pytest.mark.django_db(transaction=True)
def test_change_reaches_only_users_with_access_to_its_project(
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
    hub.publish(Change(Topic.TASK, uuid.uuid4()))
    drain(loop)
    assert {name for name, s in sockets.items() if s.waiting} == {
        "alice",
        "bob",
        "olga",
        "vera",
        "admin",
    }


@pytest.mark.django_db(transaction=True)
def test_change_without_project_is_hidden_from_project_members(
    cast: Cast, loop: asyncio.AbstractEventLoop
) -> None:
    hub = hub_with(NO_PROJECT, "activity.view")
    alice, olga = Subscriber(loop, scope_of(cast.alice)), Subscriber(loop, scope_of(cast.olga))
    hub.join(alice)
    hub.join(olga)
    hub.publish(Change(Topic.TASK, uuid.uuid4()))
    drain(loop)
    assert not alice.waiting and olga.waiting and len(olga.waiting.changes) == 1


@pytest.mark.django_db(transaction=True)
def test_queue_of_a_slow_subscriber_overflows_at_its_bound(
    loop: asyncio.AbstractEventLoop,
) -> None:
    hub = hub_with()
    slow = Subscriber(loop, ALL)
    hub.join(slow)
    for _ in range(MAX_QUEUED_CHANGES + 10):
        hub.publish(Change(Topic.TASK, uuid.uuid4()))
    drain(loop)
    assert slow.overflown and (
        slow.waiting is None or len(slow.waiting.changes) <= MAX_QUEUED_CHANGES
    )


@pytest.mark.django_db(transaction=True)
def test_resume_is_rejected_after_changes_without_subscribers_or_beyond_the_buffer(
    loop: asyncio.AbstractEventLoop,
) -> None:
    read: list[uuid.UUID] = []
    hub = Hub()
    hub.register(
        "task", lambda ids: read.extend(ids) or [(i, "inventory.view", None, {}) for i in ids]
    )
    before = hub.sequence
    hub.publish(Change(Topic.TASK, uuid.uuid4()))
    assert read == []
    assert hub.join(Subscriber(loop, ALL), hub.epoch, before) is False, (
        "resumed although a change was not buffered"
    )
    assert hub.join(Subscriber(loop, ALL), hub.epoch, hub.sequence) is True
    for _ in range(MAX_BUFFERED_CHANGES + 1):
        hub.publish(Change(Topic.TASK, uuid.uuid4()))
    assert (
        hub.join(Subscriber(loop, ALL), hub.epoch, hub.sequence - MAX_BUFFERED_CHANGES - 1) is False
    )
    assert hub.join(Subscriber(loop, ALL), hub.epoch, hub.sequence - MAX_BUFFERED_CHANGES) is True


@pytest.mark.django_db(transaction=True)
def test_resumed_subscriber_gets_the_latest_change_of_each_object_in_order(
    loop: asyncio.AbstractEventLoop,
) -> None:
    hub, (first, second) = hub_with(), (uuid.uuid4(), uuid.uuid4())
    hub.join(Subscriber(loop, ALL))
    before = hub.sequence
    for changed in (first, second, first):
        hub.publish(Change(Topic.TASK, changed))
    late = Subscriber(loop, ALL)
    assert hub.join(late, hub.epoch, before) and late.waiting
    assert [(c.id, c.sequence) for c in late.waiting.changes.values()] == [
        (str(second), before + 2),
        (str(first), before + 3),
    ]


@pytest.mark.django_db(transaction=True)
def test_changes_stay_buffered_for_a_while_after_the_last_subscriber_left(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, only = hub_with(), Subscriber(loop, ALL)
    hub.join(only)
    hub.leave(only)
    before = hub.sequence
    hub.publish(Change(Topic.TASK, uuid.uuid4()))
    back = Subscriber(loop, ALL)
    assert hub.join(back, hub.epoch, before) and back.waiting and len(back.waiting.changes) == 1
    hub.leave(back)
    later = time.monotonic() + BUFFER_SECONDS_WITHOUT_SUBSCRIBERS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    hub.publish(Change(Topic.TASK, uuid.uuid4()))
    assert not hub.join(Subscriber(loop, ALL), hub.epoch, before)
