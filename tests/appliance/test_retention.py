"""Retention: which rows are deleted, which stay, and what the deletion costs others."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection, models
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from appliance.accounts import models as accounts
from appliance.accounts.models import ApiToken, IdempotencyKey, Project, User
from appliance.activity.models import Event, Task, TaskLine, TaskState
from appliance.alarms import models as alarms
from appliance.allocations import models as allocations
from appliance.allocations import time_to_gpu
from appliance.allocations.models import Allocation, AllocationState, Session, SessionState
from appliance.audit import chain
from appliance.audit import models as audit
from appliance.backups import models as backups
from appliance.configuration.models import StoredSettings
from appliance.controller import retention
from appliance.controller.retention import RULES
from appliance.db import writer
from appliance.db.identifiers import first_id_at
from appliance.db.writer import Writer
from appliance.fleet import auth
from appliance.fleet import models as fleet
from appliance.fleet.models import EnrolmentToken, NodeCertificate
from appliance.inventory import models as inventory
from appliance.inventory.models import Node
from appliance.keys.models import KeySet
from appliance.notifications.models import Notification, NotificationChoice, NotificationCursor
from appliance.pools import models as pools
from appliance.signin import models as signin
from appliance.telemetry import models as telemetry
from tests.appliance.conftest import Cast, body

Rows = dict[type[models.Model], models.Model]

KEPT: dict[type[models.Model], str] = {
    accounts.User: "an account, which a person removes",
    accounts.Department: "configuration",
    accounts.Group: "configuration",
    accounts.GroupMember: "configuration",
    accounts.CustomRole: "configuration",
    accounts.Project: "configuration",
    accounts.RoleBinding: "configuration",
    signin.SecondFactor: "part of its user",
    signin.ExternalIdentity: "part of its user",
    signin.Passkey: "part of its user",
    signin.UsedChallenge: "ends after minutes; the next one deletes it",
    signin.DeviceLogin: "ends after 10 minutes; the next one deletes it, and 1,000 are the most",
    KeySet: "one row for each kind of keys",
    audit.AuditChain: "one row",
    StoredSettings: "one row",
    alarms.AlarmDefinition: "configuration",
    NotificationCursor: "one row",
    NotificationChoice: "configuration",
    allocations.Partition: "deleted when its GPU is free again",
    fleet.SshHostKey: "configuration: a pinned key",
    inventory.Site: "configuration",
    inventory.Node: "a removed node is kept for the history",
    inventory.Endpoint: "one report of a node replaces them",
    inventory.Gpu: "part of its node",
    pools.Pool: "configuration",
    pools.Quota: "configuration",
    pools.Reservation: "configuration",
    pools.ProjectUse: "one row of each project",
    telemetry.MetricSet: "one row of each list of columns in the code",
    backups.Backup: "deleted with its file, by settings of its own",
    telemetry.Chunk: "telemetry/retention.py deletes expired chunks",
}
"""Tables that no rule cleans, with the reason."""


def test_every_table_has_a_rule_or_a_reason_to_stay() -> None:
    tables = {
        model
        for model in apps.get_models()
        if model._meta.app_config is not None
        and model._meta.app_config.name.startswith("appliance.")
    }
    cleaned = {rule.model for rule in RULES}
    assert tables == cleaned | set(KEPT) and not cleaned & set(KEPT)


def days_ago(setting: str, more: float) -> datetime:
    """Return the time at which a rule deletes, and some days before that."""
    return timezone.now() - timedelta(days=getattr(settings.ENVIRONMENT, setting) + more)


def id_made(at: datetime) -> UUID:
    return UUID(int=first_id_at(at).int | uuid4().int & (1 << 80) - 1)


def add_rows_of_user(user: User, allocation: Allocation, more: float) -> list[models.Model]:
    return [
        Notification.objects.create(
            id=id_made(days_ago("retain_events_days", more)),
            user=user,
            allocation_id=allocation.pk,
            kind=f"start{more}"[:20],
        ),
        IdempotencyKey.objects.create(
            id=id_made(days_ago("retain_idempotency_keys_days", more)),
            user=user,
            key=f"{more}",
            status=200,
            answer={},
        ),
        ApiToken.objects.create(user=user, expires_at=days_ago("retain_tokens_days", more)),
    ]


def add_rows(user: User, node: Node, more: float) -> Rows:
    """Add a row of each table, which its rule deletes if `more` is positive."""
    allocation = Allocation.objects.create(
        owner=user,
        project=Project.objects.get(name="default"),
        state=AllocationState.RELEASED,
        ended_at=days_ago("retain_allocations_days", more),
    )
    task = Task.objects.create(
        kind="k", state=TaskState.SUCCEEDED, ended_at=days_ago("retain_tasks_days", more)
    )
    rows: list[models.Model] = [
        allocation,
        add_session(allocation, node, days_ago("retain_sessions_days", more)),
        task,
        TaskLine.objects.create(task=task, message="m"),
        Event.objects.create(
            id=id_made(days_ago("retain_events_days", more)),
            kind="allocation.released",
            object_id=allocation.pk,
            path=allocation.path,
            project_id=allocation.project_id,
        ),
        NodeCertificate.objects.create(
            serial=f"{more}", node=node, not_after=days_ago("retain_certificates_days", more)
        ),
        EnrolmentToken.objects.create(
            secret_sha256=f"{more}", expires_at=days_ago("retain_tokens_days", more)
        ),
        *add_rows_of_user(user, allocation, more),
        audit.AuditRecord.objects.create(created_at=days_ago("retain_audit_days", more)),
        *add_alarm(days_ago("retain_events_days", more)),
    ]
    chain.seal_batch()
    return {type(row): row for row in rows}


def add_alarm(cleared_at: datetime) -> list[models.Model]:
    """Add a cleared alarm with history and an action."""
    definition = alarms.AlarmDefinition.objects.get_or_create(name="d")[0]
    alarm = alarms.Alarm.objects.create(
        definition=definition, name="d", object_id=uuid4(), cleared_at=cleared_at
    )
    return [
        alarm,
        alarms.AlarmEntry.objects.create(alarm=alarm),
        alarms.AlarmAction.objects.create(alarm=alarm, definition=definition, content={}),
    ]


def add_session(allocation: Allocation, node: Node, closed_at: datetime | None) -> Session:
    return Session.objects.create(
        id=uuid4(),
        allocation=allocation,
        node=node,
        state=SessionState.CLOSED if closed_at else SessionState.RUNNING,
        pid=1,
        client_pid=1,
        opened_at=closed_at or timezone.now(),
        closed_at=closed_at,
    )


def clean() -> None:
    """Delete all expired rows on this thread."""
    for rule in RULES:
        while rule.delete_batch(timezone.now()):
            pass


def exists(row: models.Model) -> bool:
    return type(row)._default_manager.filter(pk=row.pk).exists()


def test_rows_older_than_their_limit_go_and_younger_ones_stay(
    cast: Cast, add_node: Callable[..., Node]
) -> None:
    node = add_node()
    old, young = add_rows(cast.alice, node, 0.01), add_rows(cast.alice, node, -0.01)
    assert set(old) == {rule.model for rule in RULES}
    clean()
    assert {m.__name__ for m, row in old.items() if exists(row)} == set()
    assert {m.__name__ for m, row in young.items() if not exists(row)} == set()


def test_rows_that_have_not_ended_stay(cast: Cast, add_node: Callable[..., Node]) -> None:
    ago = timezone.now() - timedelta(days=3650)
    project = Project.objects.get(name="default")
    allocation = Allocation.objects.create(
        owner=cast.alice, project=project, state=AllocationState.ACTIVE, created_at=ago
    )
    rows = [
        allocation,
        add_session(allocation, add_node(), None),
        Task.objects.create(state=TaskState.RUNNING, created_at=ago),
        ApiToken.objects.create(user=cast.alice, created_at=ago),
        alarms.Alarm.objects.create(name="open", object_id=uuid4(), created_at=ago),
    ]
    clean()
    assert all(map(exists, rows))


def test_task_with_running_parts_stays(db: None) -> None:
    ago = timezone.now() - timedelta(days=3650)
    parent = Task.objects.create(state=TaskState.SUCCEEDED, ended_at=ago)
    part = Task.objects.create(state=TaskState.RUNNING, parent=parent)
    clean()
    assert exists(parent)
    Task.objects.filter(pk=part.pk).update(state=TaskState.SUCCEEDED, ended_at=ago)
    clean()
    clean()
    assert not exists(part) and not exists(parent)


def test_session_without_an_end_goes_with_its_allocation(
    cast: Cast, add_node: Callable[..., Node]
) -> None:
    rows = add_rows(cast.alice, add_node(), 0.01)
    allocation = rows[Allocation]
    assert isinstance(allocation, Allocation)
    session = add_session(allocation, add_node("lost"), None)
    clean()
    assert not exists(session) and not exists(allocation)


def test_event_stays_readable_without_its_allocation(
    cast: Cast, client_of: Callable[[User | None], APIClient], add_node: Callable[..., Node]
) -> None:
    allocation = add_rows(cast.alice, add_node(), 0.01)[Allocation]
    assert isinstance(allocation, Allocation)
    Event.objects.create(
        kind="allocation.released",
        object_id=allocation.pk,
        path=allocation.path,
        project_id=allocation.project_id,
        actor="system",
    )
    clean()
    client = client_of(cast.alice)
    assert client.get(f"/api/v1/allocations/{allocation.pk}").status_code == 404
    (event,) = body(client.get(f"/api/v1/events?object_id={allocation.pk}"))["items"]
    assert event["kind"] == "allocation.released"


def test_waiting_times_begin_when_retention_permits(cast: Cast) -> None:
    now = timezone.now()
    horizon = now - timedelta(days=settings.ENVIRONMENT.retain_allocations_days)
    Allocation.objects.create(  # long enough to be left, unlike shorter ones of its time
        owner=cast.alice,
        project=Project.objects.get(name="default"),
        state=AllocationState.ACTIVE,
        created_at=horizon - timedelta(days=1),
        active_at=now,
    )
    items, since = time_to_gpu.measure(
        since=horizon - timedelta(days=9), until=now, projects=None, now=now
    )
    assert since == horizon and sum(i.count for i in items) == 0


@pytest.mark.skipif(bool(settings.ENVIRONMENT.database), reason="plans of SQLite")
@pytest.mark.parametrize("rule", RULES, ids=lambda r: f"{r.model.__name__}-{r.setting}")
def test_rules_read_no_table_from_end_to_end(db: None, rule: retention.Rule) -> None:
    assert plans(lambda: rule.delete_batch(timezone.now())) == []


@pytest.mark.skipif(bool(settings.ENVIRONMENT.database), reason="plans of SQLite")
def test_poll_of_certificates_does_not_read_expired_or_superseded_ones(db: None) -> None:
    scans = plans(auth.valid_serials)
    assert [s for s in scans if "node_certificate_in_force" not in s] == []


@pytest.mark.skipif(bool(settings.ENVIRONMENT.database), reason="plans of SQLite")
def test_query_of_open_sessions_does_not_read_closed_ones(db: None) -> None:
    opened = Session.objects.exclude(state=SessionState.CLOSED).values_list("allocation_id")
    assert plans(lambda: list(opened)) == ["SCAN allocations_session USING INDEX session_open"]


def plans(query: Callable[[], Any]) -> list[str]:
    """Return the lines of the query's plan that read a table or an index from end to end."""
    with CaptureQueriesContext(connection) as captured:
        query()
    (text,) = [
        q["sql"] for q in captured if not q["sql"].startswith(("SAVEPOINT", "RELEASE", "BEGIN"))
    ]
    with connection.cursor() as cursor:
        cursor.execute("EXPLAIN QUERY PLAN " + text.replace("%", "%%"))
        return [str(row[3]) for row in cursor.fetchall() if str(row[3]).startswith("SCAN")]


BACKLOG_ROWS = 100_000


@pytest.fixture
def writer_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    one = Writer()
    monkeypatch.setattr(writer, "_writer", one)
    yield one
    one.stop()


def add_backlog(rows: int) -> None:
    ago = days_ago("retain_events_days", 1)
    Event.objects.bulk_create(
        [Event(id=id_made(ago), kind="k", path="p", message="m") for _ in range(rows)],
        batch_size=5000,
    )


class Observed:
    """A deletion of a rule that calls a function before each batch."""

    def __init__(self, delete: Any, before: Callable[[], None]) -> None:
        self.delete, self.before = delete, before

    def __call__(self, **values: Any) -> int:
        self.before()
        deleted: int = self.delete(**values)
        return deleted


@pytest.mark.django_db(transaction=True)
def test_backlog_is_deleted_in_batches_with_changes_between_them(
    writer_thread: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_backlog(10 * retention.BATCH_ROWS)
    monkeypatch.setattr(retention, "BATCH_PAUSE_SECONDS", 0.0)
    order: list[str] = []

    def change_next() -> None:
        order.append("batch")
        writer_thread.submit(lambda: order.append("change"))

    for rule in RULES:
        monkeypatch.setitem(vars(rule), "delete", Observed(rule.delete, change_next))
    asyncio.run(retention.delete_expired_rows())
    assert not Event.objects.exists()
    assert order.count("batch") > 10
    assert {*order[::2]} == {"batch"} and {*order[1::2]} == {"change"}


@pytest.mark.django_db(transaction=True)
def test_rule_that_fails_does_not_keep_the_rows_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> int:
        raise ValueError("damaged")

    add_backlog(2)
    monkeypatch.setitem(vars(RULES[0]), "delete", fail)
    asyncio.run(retention.delete_expired_rows())
    assert not Event.objects.exists()


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_backlog_does_not_delay_changes(
    writer_thread: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_backlog(BACKLOG_ROWS)
    monkeypatch.setattr(retention, "BATCH_PAUSE_SECONDS", 0.0)
    held, waited, done = measure_batches(monkeypatch), list[float](), threading.Event()

    def change() -> None:
        while not done.is_set():
            begin = time.perf_counter()
            writer.write_transaction(lambda: Event.objects.create(kind="young"))()
            waited.append(time.perf_counter() - begin)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        asyncio.run(retention.delete_expired_rows())
    finally:
        done.set()
        changing.join()
    assert len(held) > BACKLOG_ROWS / retention.BATCH_ROWS
    assert Event.objects.exclude(kind="young").count() == 0
    assert Event.objects.count() == len(waited) > len(held) / 10
    assert max(held) < 0.03, f"a batch took {max(held):.3f} s of the writer"
    assert statistics.median(waited) < 0.03


def measure_batches(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the processor time of each batch on the writer thread."""
    held: list[float] = []

    class Measured:
        def __init__(self, delete: Any) -> None:
            self.delete = delete

        def __call__(self, **values: Any) -> int:
            begin = time.thread_time()
            deleted: int = self.delete(**values)
            held.append(time.thread_time() - begin)
            return deleted

    for rule in RULES:
        monkeypatch.setitem(vars(rule), "delete", Measured(rule.delete))
    return held
