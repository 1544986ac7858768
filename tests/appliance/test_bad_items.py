"""Periodic work on many items: one that fails is logged with its name, the others go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from datetime import timezone as zones
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from appliance.accounts.models import RoleBinding, User
from appliance.activity.models import Event
from appliance.alarms import delivery as alarm_delivery
from appliance.alarms.evaluator import Evaluator
from appliance.alarms.models import Alarm, AlarmAction, AlarmDefinition
from appliance.allocations import (
    eviction,
    leases,
    lifecycle,
    lost_access,
    maintenance,
    scheduler,
    services,
    snapshot_loader,
)
from appliance.allocations.models import Allocation
from appliance.controller import notification_job
from appliance.db.identifiers import first_id_at
from appliance.fleet import rotation
from appliance.inventory import reachability_events
from appliance.inventory.models import Gpu, Node, NodeState
from appliance.keys.models import KeyKind, KeySet, Phase
from appliance.notifications import collection, delivery
from appliance.notifications.models import (
    Notification,
    NotificationCursor,
    NotificationKind,
)
from appliance.pools.models import Pool, Quota, Reservation
from appliance.runtime import each
from tests.appliance.conftest import Cast, applied

Clients = Callable[[User | None], Any]
AddNode = Callable[..., Node]
pytestmark = pytest.mark.django_db(databases=list(settings.DATABASES))
URL = "/api/v1/allocations"
ON_PURPOSE = ValueError("on purpose")
FIRST_DAY = datetime(2020, 1, 1, tzinfo=zones.utc)


@pytest.fixture(autouse=True)
def no_known_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(each, "_failures", {})


def fail_for(
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    name: str,
    is_bad: Callable[..., bool],
    failure: Exception = ON_PURPOSE,
) -> None:
    work = getattr(module, name)

    def run(*args: Any, **kwargs: Any) -> Any:
        done = work(*args, **kwargs)
        if is_bad(*args, **kwargs):
            raise failure
        return done

    monkeypatch.setattr(module, name, run)


def states() -> dict[str, str]:
    return dict(Allocation.objects.values_list("name", "state"))


@pytest.fixture
def held(cast: Cast, client_of: Clients, add_node: AddNode) -> list[str]:
    """Active allocations of alice, of which the first one cannot be released."""
    node = add_node()
    names = ["bad", "good", "other"]
    for name in names:
        content = {"percent": 10, "name": name}
        made = client_of(cast.alice).post(URL, content, format="json")
        assert made.status_code == 202, made.content
    applied(node)
    return names


@pytest.fixture
def bad_release(held: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    fail_for(monkeypatch, lifecycle, "begin_release", lambda a, **_: a.name == "bad")
    return str(Allocation.objects.get(name="bad").pk)


EXPECTED = {"bad": "active", "good": "releasing", "other": "releasing"}


def test_allocation_that_cannot_be_evicted_does_not_keep_others_from_their_end(
    bad_release: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leases, "seconds_since_renewal", lambda _: 1e6)
    for _ in range(2):
        eviction.evict_expired()
    assert states() == EXPECTED
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR] == [
        f"allocations: eviction failed, the others go on: {bad_release}"
    ]


def test_allocation_whose_expiry_cannot_be_read_does_not_keep_others_from_their_end(
    held: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad = Allocation.objects.get(name="bad").pk
    monkeypatch.setattr(leases, "seconds_since_renewal", lambda _: 1e6)
    fail_for(monkeypatch, eviction, "expiry_of", lambda row, *_: row.pk == bad)
    eviction.evict_expired()
    assert states() == EXPECTED
    assert str(bad) in caplog.text


def test_allocation_that_cannot_be_evicted_does_not_keep_others_without_access(
    cast: Cast, bad_release: str, caplog: pytest.LogCaptureFixture
) -> None:
    RoleBinding.objects.filter(user=cast.alice).delete()
    lost_access.evict_without_access()
    assert states() == EXPECTED
    assert bad_release in caplog.text


def test_node_whose_drain_fails_does_not_keep_others_from_maintenance(
    add_node: AddNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "bad", "c"):
        add_node(name)
    Node.objects.update(state=NodeState.DRAINING)
    fail_for(monkeypatch, maintenance, "emit_node_event", lambda node, *_, **__: node.name == "bad")
    maintenance.complete_drained_nodes()
    found = dict(Node.objects.values_list("name", "state"))
    assert found == {"a": "maintenance", "bad": "draining", "c": "maintenance"}
    told = Event.objects.filter(kind="node.maintenance").values_list("message", flat=True)
    assert not any("bad" in message for message in told)
    assert "maintenance: drain failed, the others go on: bad" in caplog.text


def test_pools_and_requests_that_cannot_be_read_do_not_stop_the_scheduler(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    Pool.objects.create(name="bad pool", policies=["nonsense"])
    alice, names = client_of(cast.alice), ("bad", "good")
    for name in names:
        content = {"percent": 10, "name": name, "allow_pending": True}
        assert alice.post(URL, content, format="json").status_code == 202
    Allocation.objects.filter(name="bad").update(compute_mode="nonsense")
    add_node()
    scheduler.run_tick()
    assert states() == {"bad": "queued", "good": "preparing"}
    unreadable = Allocation.objects.get(name="bad")
    for row in ("bad pool", str(unreadable.pk)):
        assert f"the others go on: {row}" in caplog.text
    assert (unreadable.waiting_rule, "see its log" in unreadable.waiting_reason) == ("error", True)


def test_gpu_that_cannot_be_read_does_not_stop_the_scheduler(
    cast: Cast, client_of: Clients, add_node: AddNode, caplog: pytest.LogCaptureFixture
) -> None:
    queue_requests(client_of, {"good": cast.alice})
    bad, good = (Gpu.objects.filter(node=add_node(name)) for name in ("bad", "good"))
    pool = Pool.objects.create(name="bad", required_isolation="nonsense")
    bad.update(pool=pool)
    scheduler.run_tick()
    assert states() == {"good": "preparing"}
    assert good.get().taken_percent == 10
    assert str(bad.get().pk) in caplog.text


def queue_requests(client_of: Clients, owners: dict[str, User], **values: Any) -> None:
    for name, owner in owners.items():
        content = {"percent": 10, "name": name, "allow_pending": True} | values
        assert client_of(owner).post(URL, content, format="json").status_code == 202


def told_reason(name: str) -> tuple[str, str]:
    allocation = Allocation.objects.get(name=name)
    return allocation.waiting_rule, allocation.waiting_reason


def test_quota_that_cannot_be_read_stops_only_its_subject(
    cast: Cast, client_of: Clients, add_node: AddNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the limit the subject would get GPUs that are not its own."""
    queue_requests(client_of, {"bad": cast.alice, "good": cast.bob})
    add_node()
    quota = Quota.objects.create(subject_kind="nonsense", subject_id=cast.alice.pk, limit_percent=0)
    for _ in range(2):
        scheduler.run_tick()
    assert states() == {"bad": "queued", "good": "preparing"}
    rule, reason = told_reason("bad")
    assert rule == "error" and "quota of the user" in reason
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR] == [
        f"scheduler: reading of quota failed, the others go on: {quota.pk}"
    ]


def test_reservation_that_cannot_be_read_stops_only_its_pool(
    cast: Cast,
    client_of: Clients,
    add_node: AddNode,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without it others would get the GPUs that it keeps."""
    queue_requests(client_of, {"bad": cast.alice})
    other, now = Pool.objects.create(name="other"), timezone.now()
    queue_requests(client_of, {"good": cast.alice}, pool="other")
    add_node("a")
    Gpu.objects.filter(node=add_node("b")).update(pool=other)
    periods = {"default": (now, now + timedelta(hours=1)), "other": (now, now)}
    for pool, (starts_at, ends_at) in periods.items():
        Reservation.objects.create(
            name=pool,
            pool=Pool.objects.get(name=pool),
            project=Allocation.objects.get(name="bad").project,
            gpu_count=1,
            starts_at=starts_at,
            ends_at=ends_at,
        )
    # Those that cannot be read are loaded without a request.
    fail_for(monkeypatch, snapshot_loader, "Reservation", lambda *row: row[4] is not None)
    for _ in range(2):
        scheduler.run_tick()
    assert states() == {"bad": "queued", "good": "preparing"}
    rule, reason = told_reason("bad")
    assert rule == "error" and "reservation of the pool" in reason
    assert caplog.text.count("reading of reservation failed") == len(periods)


def test_resize_that_cannot_be_read_is_told(held: list[str], cast: Cast) -> None:
    Allocation.objects.filter(name="bad").update(
        compute_mode="nonsense", resize_requested_at=timezone.now()
    )
    scheduler.run_tick()
    rule, reason = told_reason("bad")
    assert rule == "error" and "see its log" in reason


def test_release_ends_although_the_tick_after_it_fails(
    held: list[str],
    cast: Cast,
    client_of: Clients,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue_requests(client_of, {"waits": cast.alice}, percent=100)
    fail_for(monkeypatch, snapshot_loader, "load_snapshot", lambda *_: True)
    by_name = {a.name: a for a in Allocation.objects.all()}
    eviction.evict(allocation_id=by_name["good"].pk, reason="test")
    applied(Node.objects.get())
    services.force_release(allocation_id=by_name["other"].pk, actor="test")
    found = states()
    assert (found["good"], found["other"]) == ("released", "released")
    assert caplog.text.count("scheduler: tick failed") == 1


def test_reason_for_waiting_that_cannot_be_written_does_not_keep_others_in_the_queue(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_requests(client_of, {"bad": cast.alice}, gpu_count=2, priority=60)
    queue_requests(client_of, {"good": cast.alice})
    rows = Allocation.objects.filter(name="bad")
    rows.update(waiting_reason="")
    add_node()
    fail_for(monkeypatch, scheduler, "task_log", lambda path, **_: path == rows.get().path)
    scheduler.run_tick()
    assert states() == {"bad": "queued", "good": "preparing"}
    assert told_reason("bad") == ("capacity", ""), "rolled back"


def test_request_whose_start_fails_does_not_keep_others_in_the_queue(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        content = {"percent": 10, "name": name, "allow_pending": True}
        assert client_of(cast.alice).post(URL, content, format="json").status_code == 202
    add_node()
    fail_for(monkeypatch, lifecycle, "prepare", lambda a, *_: a.name == "bad")
    scheduler.run_tick()
    assert states() == {"bad": "queued", "good": "preparing"}
    assert "see its log" in Allocation.objects.get(name="bad").waiting_reason


def test_request_whose_start_fails_takes_no_capacity(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, priority in (("bad", 60), ("good", 50)):
        content = {"gpu_count": 2, "name": name, "priority": priority, "allow_pending": True}
        assert client_of(cast.alice).post(URL, content, format="json").status_code == 202
    add_node(gpus=2)
    fail_for(monkeypatch, lifecycle, "prepare", lambda a, *_: a.name == "bad")
    scheduler.run_tick()
    assert states() == {"bad": "queued", "good": "preparing"}


def test_new_request_whose_start_fails_is_refused(
    cast: Cast, client_of: Clients, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_node()
    fail_for(monkeypatch, lifecycle, "prepare", lambda *_: True)
    made = client_of(cast.alice).post(URL, {"percent": 10}, format="json")
    assert (made.status_code, made.json()["code"]) == (500, "internal")
    assert not Allocation.objects.exists()


def test_notification_that_cannot_be_written_does_not_keep_others(
    held: list[str], cast: Cast, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    User.objects.filter(pk=cast.alice.pk).update(email="alice@example.org")
    rows = Allocation.objects.select_related("owner").order_by("name")
    fail_for(monkeypatch, collection, "compose", lambda kind, a: a.name == "bad")
    collection.write_transaction(
        lambda: collection.store([collection.Found(NotificationKind.RECLAIM, a) for a in rows])
    )()
    told = Notification.objects.values_list("allocation_id", flat=True)
    assert set(told) == {a.pk for a in rows if a.name != "bad"}
    assert str(rows[0].pk) in caplog.text


def test_mail_that_cannot_be_sent_is_counted_and_others_are_sent(
    held: list[str], cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    for allocation in Allocation.objects.all():
        Notification.objects.create(
            user=cast.alice,
            kind=NotificationKind.RECLAIM,
            allocation_id=allocation.pk,
            subject=allocation.name,
            text="-",
            recipient="a@example.org",
        )
    monkeypatch.setattr(delivery, "is_set_up", lambda: True)
    monkeypatch.setattr(delivery, "send_mail", lambda **_: None)
    fail_for(monkeypatch, delivery, "send_mail", lambda subject, **_: subject == "bad")
    delivery.deliver()
    sent = {n.subject: (n.sent_at is not None, n.error) for n in Notification.objects.all()}
    failed = "ValueError; see the log of the appliance"
    assert sent == {"bad": (False, failed), "good": (True, ""), "other": (True, "")}


def test_step_of_the_notifications_that_fails_does_not_keep_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[str] = []

    def step(name: str) -> Callable[[], Any]:
        async def run() -> None:
            ran.append(name)
            if name == "collect_all":
                raise ValueError("on purpose")

        run.__name__ = name
        return run

    names = ["collect_all", "send_codes", "send_mails"]
    for name in names:
        monkeypatch.setattr(notification_job, name, step(name))
    assert asyncio.run(notification_job.run_steps()) is False
    assert ran == names


def test_action_whose_end_cannot_be_recorded_does_not_keep_others(
    add_node: AddNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("bad", "good"):
        AlarmDefinition.objects.create(
            name=name,
            severity="critical",
            object_kind="node",
            condition="state",
            states=["cordoned"],
            webhook_url="https://example.org/",
        )
    add_node()
    Node.objects.update(state=NodeState.CORDONED)
    Evaluator().evaluate()
    assert AlarmAction.objects.count() == 2
    monkeypatch.setattr(alarm_delivery, "perform", lambda row: None)
    fail_for(monkeypatch, alarm_delivery, "note", lambda alarm, *_: alarm.name == "bad")
    alarm_delivery.deliver()
    left = AlarmAction.objects.values_list("definition__name", flat=True)
    assert list(left) == ["bad"]
    assert "alarms: record of action failed, the others go on: webhook of bad" in caplog.text


def test_webhook_with_a_malformed_address_is_given_up(add_node: AddNode) -> None:
    AlarmDefinition.objects.create(
        name="a",
        severity="critical",
        object_kind="node",
        condition="state",
        states=["cordoned"],
        webhook_url="https://[bad/",
    )
    add_node()
    Node.objects.update(state=NodeState.CORDONED)
    Evaluator().evaluate()
    AlarmAction.objects.update(attempts=alarm_delivery.MAX_ATTEMPTS - 1)
    alarm_delivery.deliver()
    assert not AlarmAction.objects.exists()


def test_alarm_that_cannot_be_raised_does_not_keep_others(
    add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bad", "good"):
        add_node(name)
    Node.objects.update(state=NodeState.CORDONED)
    AlarmDefinition.objects.update(enabled=False)
    AlarmDefinition.objects.create(
        name="a", severity="info", object_kind="node", condition="state", states=["cordoned"]
    )
    from appliance.alarms import lifecycle as alarms

    fail_for(monkeypatch, alarms, "add_alarm", lambda _, finding: finding.subject.name == "bad")
    Evaluator().evaluate()
    assert list(Alarm.objects.values_list("object_name", flat=True)) == ["good"]


def test_rotation_that_fails_does_not_keep_the_other(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in KeyKind:
        KeySet.objects.update_or_create(pk=kind, defaults={"phase": Phase.USE})
    followed: list[str] = []
    monkeypatch.setattr(rotation, "is_ready", lambda row: True)
    monkeypatch.setattr(rotation, "update_files", lambda: None)
    monkeypatch.setattr(rotation, "advance", lambda kind, force: followed.append(kind))
    fail_for(monkeypatch, rotation, "advance", lambda kind, force: kind == KeyKind.CA)
    rotation.follow_rotations()
    assert followed == list(KeyKind)


def test_notifications_are_read_again_after_a_deadlock(
    held: list[str], cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cursor must not move over events whose mails were not stored."""
    User.objects.filter(pk=cast.alice.pk).update(email="alice@example.org")
    monkeypatch.setattr(collection, "EVENT_AGE_SECONDS", -60.0)
    NotificationCursor.objects.update_or_create(pk=1, defaults={"event_id": first_id_at(FIRST_DAY)})
    found = collection.Found(NotificationKind.RECLAIM, Allocation.objects.get(name="good"))
    monkeypatch.setattr(collection, "of_events", lambda events: [found])
    with monkeypatch.context() as patch:
        fail_for(patch, collection, "compose", lambda *_: True, OperationalError("deadlock"))
        with pytest.raises(OperationalError):
            collection.read_events(skips=False)
    assert collection.read_events(skips=False) > 0
    assert Notification.objects.get().allocation_id == found.allocation.pk


def test_change_of_reachability_is_announced_after_a_deadlock(
    add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = add_node("a")
    monkeypatch.setattr(reachability_events, "_reachable", {node.pk: False})
    monkeypatch.setattr(reachability_events.reachability, "unreachable", lambda _: set())
    with monkeypatch.context() as patch:
        failure = OperationalError("deadlock")
        fail_for(patch, reachability_events, "emit", lambda *_, **__: True, failure)
        with pytest.raises(OperationalError):
            reachability_events.publish_reachability_changes()
    for _ in range(2):
        reachability_events.publish_reachability_changes()
    assert Event.objects.filter(kind="node.reachable").count() == 1


def test_node_whose_event_fails_does_not_keep_those_of_others(
    add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = {add_node(name).pk: True for name in ("bad", "good")}
    fail_for(monkeypatch, reachability_events, "emit", lambda *_, message, **__: "bad" in message)
    reachability_events.record_reachability_changes(reachable=nodes)
    told = Event.objects.filter(kind="node.reachable").values_list("message", flat=True)
    assert list(told) == ["Node good is reachable again."]
