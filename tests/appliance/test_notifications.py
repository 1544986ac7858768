"""Mails to users: which events cause one, what it says, and that each is sent once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from appliance.accounts.models import User
from appliance.allocations import eviction, lifecycle, scheduler
from appliance.allocations.models import Allocation, AllocationState
from appliance.inventory.models import Node
from appliance.notifications import collection, delivery
from appliance.notifications.models import Notification, NotificationKind
from appliance.runtime import live_settings
from appliance.runtime.setting_sections import MailSettings, NotificationSettings
from tests.appliance.conftest import Cast, applied, body
from tests.appliance.smtp_server import Inbox, smtp_server
from tests.ports import port

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
MAIL = {"host": "127.0.0.1", "port": port(93), "sender": "b@example.org", "security": "none"}


def use(mail: dict[str, Any], **notifications: Any) -> None:
    live_settings.replace(
        {
            MailSettings: MailSettings(**mail),
            NotificationSettings: NotificationSettings(**notifications),
        }
    )


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consider events as soon as they are made."""
    monkeypatch.setattr(collection, "EVENT_AGE_SECONDS", -0.002)


@pytest.fixture
def node(cast: Cast, add_node: AddNode) -> Node:
    cast.alice.email = "alice@example.org"
    cast.alice.save(update_fields=["email"])
    use(MAIL)
    collection.collect()
    return add_node(gpus=2)


def allocate(cast: Cast, client_of: Clients, node: Node, **request: Any) -> Allocation:
    """Create an active allocation of alice."""
    content = {"percent": 10, "name": "train", **request}
    made = client_of(cast.alice).post("/api/v1/allocations", content, format="json")
    assert made.status_code == 202, made.content
    scheduler.run_tick()
    applied(node)
    found = Allocation.objects.get(pk=body(made)["id"])
    assert found.state == AllocationState.ACTIVE
    return found


def told() -> list[tuple[str, str]]:
    collection.collect()
    return [(n.kind, n.subject) for n in Notification.objects.order_by("pk")]


def made_earlier(allocation: Allocation, seconds: float) -> None:
    """Let the request have waited for some seconds."""
    earlier = timezone.now() - timedelta(seconds=seconds)
    Allocation.objects.filter(pk=allocation.pk).update(created_at=earlier)


def test_start_is_told_after_a_wait_only(cast: Cast, client_of: Clients, node: Node) -> None:
    allocate(cast, client_of, node)
    made_earlier(allocate(cast, client_of, node, name="waited"), 605)
    assert told() == [("start", "Busbar: waited has started")]
    assert "after 10 min in the queue" in Notification.objects.get().text
    assert told() == [("start", "Busbar: waited has started")]


def test_end_of_a_lifetime_is_told_before_and_only_once(
    cast: Cast, client_of: Clients, node: Node
) -> None:
    long = allocate(cast, client_of, node, name="long", lifetime_seconds=7200)
    allocate(cast, client_of, node, name="short", lifetime_seconds=600)
    assert told() == []
    Allocation.objects.filter(pk=long.pk).update(active_at=timezone.now() - timedelta(seconds=5500))
    ((kind, subject),) = told()
    assert kind == "lifetime" and subject.startswith("Busbar: long ends at ")
    Allocation.objects.filter(pk=long.pk).update(active_at=timezone.now() - timedelta(seconds=7201))
    eviction.evict_expired()
    assert len(told()) == 1


def test_reclaim_is_told_with_its_reason(cast: Cast, client_of: Clients, node: Node) -> None:
    announced = allocate(cast, client_of, node, name="announced")
    ended = allocate(cast, client_of, node, name="ended")
    eviction.evict(allocation_id=announced.pk, reason="preempted by x", grace_seconds=60)
    eviction.evict(allocation_id=ended.pk, reason="no session and no heartbeat for 25 s")
    assert [kind for kind, _ in told()] == ["reclaim", "reclaim"]
    first, second = Notification.objects.order_by("pk")
    assert "loses its GPUs at" in first.subject and "preempted by x" in first.text
    assert "lost its GPUs: no session and no heartbeat" in second.text


def withdraw(made: Allocation) -> None:
    made.refresh_from_db()
    lifecycle.withdraw_eviction(made, actor="system")


def test_eviction_after_a_withdrawn_one_is_told_as_well(
    cast: Cast, client_of: Clients, node: Node, inbox: Inbox
) -> None:
    made = allocate(cast, client_of, node)
    eviction.evict(allocation_id=made.pk, reason="preempted by x", grace_seconds=60)
    collection.collect()
    delivery.deliver()
    withdraw(made)
    collection.collect()
    delivery.deliver()
    eviction.evict(allocation_id=made.pk, reason="maintenance", grace_seconds=60)
    collection.collect()
    delivery.deliver()
    first, second, third = (message["Subject"] for message in inbox.messages)
    assert "train loses its GPUs at" in first and second == "Busbar: train keeps its GPUs"
    assert "train loses its GPUs at" in third
    assert "maintenance" in inbox.messages[2].get_content()


@pytest.mark.parametrize("collects_between", [True, False], ids=["stored", "not read yet"])
def test_withdrawn_eviction_of_which_no_mail_was_sent_is_not_told(
    cast: Cast, client_of: Clients, node: Node, collects_between: bool
) -> None:
    made = allocate(cast, client_of, node)
    eviction.evict(allocation_id=made.pk, reason="preempted by x", grace_seconds=60)
    if collects_between:
        assert len(told()) == 1
    withdraw(made)
    assert told() == []
    eviction.evict(allocation_id=made.pk, reason="r")
    assert told() == [("reclaim", "Busbar: train lost its GPUs")]


def test_what_the_owner_does_is_not_told(cast: Cast, client_of: Clients, node: Node) -> None:
    made = allocate(cast, client_of, node)
    client_of(cast.alice).delete(f"/api/v1/allocations/{made.pk}")
    assert told() == []


def test_release_by_another_user_is_told(cast: Cast, client_of: Clients, node: Node) -> None:
    made = allocate(cast, client_of, node)
    client_of(cast.admin).delete(f"/api/v1/allocations/{made.pk}")
    ((kind, _),) = told()
    assert kind == "reclaim" and "released by admin" in Notification.objects.get().text


def test_kinds_can_be_turned_off_by_user_and_by_appliance(
    cast: Cast, client_of: Clients, node: Node
) -> None:
    alice = client_of(cast.alice)
    chosen = alice.patch("/api/v1/me/notifications", {"reclaim": False}, format="json")
    assert body(chosen)["reclaim"] is False and body(chosen)["start"] is True
    made = allocate(cast, client_of, node)
    eviction.evict(allocation_id=made.pk, reason="r")
    assert told() == []
    alice.patch("/api/v1/me/notifications", {"reclaim": True}, format="json")
    use(MAIL, reclaim=False)
    eviction.evict(allocation_id=allocate(cast, client_of, node).pk, reason="r")
    assert told() == []


@pytest.mark.parametrize("change", [{"email": ""}, {"is_active": False}])
def test_user_without_address_or_account_gets_nothing(
    cast: Cast, client_of: Clients, node: Node, change: dict[str, Any]
) -> None:
    made = allocate(cast, client_of, node)
    User.objects.filter(pk=cast.alice.pk).update(**change)
    eviction.evict(allocation_id=made.pk, reason="r")
    assert told() == []


def test_nothing_is_kept_while_no_mail_service_is_set_up(
    cast: Cast, client_of: Clients, node: Node
) -> None:
    use({})
    with CaptureQueriesContext(connection) as captured:
        assert collection.collect() == 0
    assert len(captured) == 0
    eviction.evict(allocation_id=allocate(cast, client_of, node).pk, reason="r")
    assert told() == []
    use(MAIL)
    assert told() == []
    eviction.evict(allocation_id=allocate(cast, client_of, node).pk, reason="r")
    assert len(told()) == 1


def test_old_events_are_passed_over(
    cast: Cast, client_of: Clients, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    eviction.evict(allocation_id=allocate(cast, client_of, node).pk, reason="r")
    monkeypatch.setattr(collection, "OLDEST_EVENT_SECONDS", -1.0)
    assert told() == []


@pytest.fixture
def inbox(tmp_path: Path, node: Node) -> Iterator[Inbox]:
    with smtp_server(tmp_path, port(94), "starttls", with_password=True) as (inbox, mail):
        use(mail)
        yield inbox


def test_mail_arrives_once_with_its_text(
    cast: Cast, client_of: Clients, node: Node, inbox: Inbox
) -> None:
    made = allocate(cast, client_of, node, name="train\u2003me")
    eviction.evict(allocation_id=made.pk, reason="preempted by x", grace_seconds=60)
    collection.collect()
    assert delivery.deliver() == 1 and delivery.deliver() == 0
    (message,) = inbox.messages
    assert inbox.recipients == ["alice@example.org"]
    assert f"busbar allocation show {made.pk}" in message.get_content()
    assert Notification.objects.get().sent_at is not None


def test_failed_mail_is_sent_again_later_and_given_up_at_last(
    cast: Cast, client_of: Clients, node: Node, inbox: Inbox
) -> None:
    made = allocate(cast, client_of, node)
    User.objects.filter(pk=cast.alice.pk).update(email="x@refused.example")
    eviction.evict(allocation_id=made.pk, reason="r")
    collection.collect()
    assert delivery.deliver() == 1 and delivery.deliver() == 0
    row = Notification.objects.get()
    assert row.attempts == 1 and "refused the recipient" in row.error
    assert row.next_attempt_at > timezone.now() + timedelta(seconds=50)
    for _ in range(20):
        Notification.objects.update(next_attempt_at=timezone.now())
        delivery.deliver()
    assert Notification.objects.get().attempts == delivery.MAX_ATTEMPTS
    User.objects.filter(pk=cast.alice.pk).update(email="alice@example.org")
    Notification.objects.update(next_attempt_at=timezone.now(), attempts=1)
    delivery.deliver()
    assert inbox.recipients == ["alice@example.org"]


def test_mail_that_another_appliance_sends_is_left_to_it(
    cast: Cast, client_of: Clients, node: Node, inbox: Inbox
) -> None:
    eviction.evict(allocation_id=allocate(cast, client_of, node).pk, reason="r")
    collection.collect()
    row = Notification.objects.get()
    assert delivery.claim(row) and not delivery.claim(row)


def test_each_kind_has_a_switch_and_a_text() -> None:
    from appliance.notifications.texts import PARTS

    for kind in NotificationKind:
        assert (kind in PARTS) == (kind != NotificationKind.ALARM)
        assert kind.value in NotificationSettings.model_fields
