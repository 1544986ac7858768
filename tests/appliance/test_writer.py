"""Group commit, savepoints and backpressure of the writer thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from rest_framework.test import APIClient

from appliance.accounts.models import Project
from appliance.db import change_log, writer
from appliance.db.deleted_rows import is_missing_row
from appliance.db.writer import Writer, run_in_savepoint
from appliance.runtime.disk_space import is_disk_full
from tests.appliance.conftest import Cast

pytestmark = pytest.mark.django_db(transaction=True)
TIMEOUT_SECONDS = 120.0


@pytest.fixture
def writer_thread() -> Iterator[Writer]:
    one = Writer()
    yield one
    one.stop()


def submit_together(writer_thread: Writer, *works: Callable[[], object]) -> list[Future[object]]:
    """Submit works for one commit: the writer thread is blocked until all are queued."""
    blocked, all_queued = threading.Event(), threading.Event()

    def hold() -> None:
        blocked.set()
        assert all_queued.wait(TIMEOUT_SECONDS)

    writer_thread.submit(hold)
    assert blocked.wait(TIMEOUT_SECONDS)
    futures = [writer_thread.submit(work) for work in works]
    all_queued.set()
    return futures


def add(name: str) -> Callable[[], str]:
    return lambda: str(Project.objects.create(name=name).name)


def test_failed_write_does_not_affect_others_of_the_same_commit(writer_thread: Writer) -> None:
    def fails() -> None:
        Project.objects.create(name="half")
        raise ValueError("on purpose")

    first, bad, last = submit_together(writer_thread, add("first"), fails, add("last"))
    assert (first.result(TIMEOUT_SECONDS), last.result(TIMEOUT_SECONDS)) == ("first", "last")
    with pytest.raises(ValueError, match="on purpose"):
        bad.result(TIMEOUT_SECONDS)
    assert {"first", "last"} <= set(
        Project.objects.values_list("name", flat=True)
    ) and not Project.objects.filter(name="half").exists()


def test_reference_to_a_deleted_row_does_not_affect_others_of_the_same_commit(
    writer_thread: Writer,
) -> None:
    def refers() -> None:
        Project.objects.create(name="astray", department_id=uuid4())

    first, bad, last = submit_together(writer_thread, add("first"), refers, add("last"))
    assert (first.result(TIMEOUT_SECONDS), last.result(TIMEOUT_SECONDS)) == ("first", "last")
    assert is_missing_row(bad.exception(TIMEOUT_SECONDS) or AssertionError("no error"))
    stored = set(Project.objects.values_list("name", flat=True))
    assert {"first", "last"} <= stored and "astray" not in stored


def test_full_queue_rejects_optional_writes_and_accepts_mandatory_ones(
    writer_thread: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_PENDING_WRITES", 1)
    blocked, release = threading.Event(), threading.Event()
    writer_thread.submit(lambda: (blocked.set(), release.wait(TIMEOUT_SECONDS)))
    assert blocked.wait(TIMEOUT_SECONDS)
    first = writer_thread.submit(add("first"))
    with pytest.raises(writer.WriterBusyError, match="too many pending changes"):
        writer_thread.submit(add("second"))
    nodes = writer_thread.submit(add("of a node"), must=True)
    release.set()
    assert (first.result(TIMEOUT_SECONDS), nodes.result(TIMEOUT_SECONDS)) == ("first", "of a node")


def test_full_queue_accepts_internal_transactions(
    writer_thread: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_PENDING_WRITES", 1)
    monkeypatch.setattr(writer, "_writer", writer_thread)
    blocked, release, submitted = threading.Event(), threading.Event(), threading.Event()
    writer_thread.submit(lambda: (blocked.set(), release.wait(TIMEOUT_SECONDS)))
    assert blocked.wait(TIMEOUT_SECONDS)
    writer_thread.submit(add("of a user"))

    def submit(work: Callable[[], object], *, must: bool = False) -> Future[object]:
        try:
            return Writer.submit(writer_thread, work, must=must)
        finally:
            submitted.set()

    monkeypatch.setattr(writer_thread, "submit", submit)
    with ThreadPoolExecutor(1) as housekeeping:
        due = housekeeping.submit(writer.write_transaction(add("due")))
        assert submitted.wait(TIMEOUT_SECONDS)
        release.set()
        assert due.result(TIMEOUT_SECONDS) == "due"


def test_failed_savepoint_rolls_back_only_its_own_changes(writer_thread: Writer) -> None:
    fallbacks: list[str] = []

    def part() -> None:
        Project.objects.create(name="undone")
        raise IntegrityError("another scheduler was first")

    def whole() -> str:
        Project.objects.create(name="whole")
        run_in_savepoint(part, (IntegrityError,), lambda: fallbacks.append("called"))
        return "done"

    (only,) = submit_together(writer_thread, whole)
    assert only.result(TIMEOUT_SECONDS) == "done" and fallbacks == ["called"]
    assert (
        Project.objects.filter(name="whole").exists()
        and not Project.objects.filter(name="undone").exists()
    )


def test_write_fails_if_its_connection_is_closed_before_the_commit(
    writer_thread: Writer,
) -> None:
    (closing,) = submit_together(
        writer_thread,
        lambda: (Project.objects.create(name="lost"), BaseDatabaseWrapper.close(connection)),
    )
    with pytest.raises(Exception, match="closed"):
        closing.result(TIMEOUT_SECONDS)
    assert not Project.objects.filter(name="lost").exists()
    (after,) = submit_together(writer_thread, add("after"))
    assert after.result(TIMEOUT_SECONDS) == "after"


def test_commit_fails_if_the_connection_is_lost_during_a_later_write(
    writer_thread: Writer,
) -> None:
    """Django marks the transaction for rollback and raises nothing."""

    def loses_connection() -> None:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        own = vars(connections["default"])

        def roll_back(_: str) -> None:
            del own["savepoint_rollback"]
            raise OperationalError("the server closed the connection")

        own["savepoint_rollback"] = roll_back
        raise OperationalError("the server closed the connection")

    first, bad = submit_together(writer_thread, add("first"), loses_connection)
    assert isinstance(bad.exception(TIMEOUT_SECONDS), InterfaceError)
    stored = Project.objects.filter(name="first").exists()
    assert (first.exception(TIMEOUT_SECONDS) is None) == stored
    (after,) = submit_together(writer_thread, add("after"))
    assert after.result(TIMEOUT_SECONDS) == "after"


def test_changes_are_published_before_the_future_of_their_write_completes(
    writer_thread: Writer,
) -> None:
    seen: list[bool] = []
    futures: list[Future[object]] = []
    unsubscribe = change_log.subscribe_all(
        lambda sequence, change: seen.append(any(f.done() for f in futures))
    )
    futures += submit_together(writer_thread, add("one"), add("two"))
    for future in futures:
        future.result(TIMEOUT_SECONDS)
    unsubscribe()
    assert seen and not any(seen)


def test_read_only_process_rejects_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_writer", None)
    writer.use_read_only_writer()
    try:
        with pytest.raises(RuntimeError):
            writer.write_transaction(add("never"))()
    finally:
        writer._writer = None
    connections.close_all()
    assert not Project.objects.filter(name="never").exists()


def test_rejected_request_in_a_shared_transaction_is_repeated_alone(
    writer_thread: Writer,
    monkeypatch: pytest.MonkeyPatch,
    cast: Cast,
    client_of: Callable[..., APIClient],
) -> None:
    monkeypatch.setattr(writer, "_writer", writer_thread)
    client = client_of(cast.olga)
    for status in (201, 409):  # the second fails in the shared transaction and is repeated alone
        assert client.post("/api/v1/pools", {"name": "twice"}, format="json").status_code == status
    for status in (201, 409):
        quota = {"subject_kind": "user", "subject": "alice", "quota_gpus": 1.0}
        assert client.post("/api/v1/quotas", quota, format="json").status_code == status


@pytest.mark.skipif(bool(settings.ENVIRONMENT.database), reason="a limit of SQLite's pages")
def test_full_disk_fails_changes_as_a_whole(writer_thread: Writer) -> None:
    def limit_pages() -> None:
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA page_count")
            cursor.execute(f"PRAGMA max_page_count = {cursor.fetchone()[0]}")

    def add_much() -> None:  # more than the pages that other tests have left free
        Project.objects.bulk_create(Project(name=f"{n:0100}") for n in range(50_000))

    writer_thread.submit(limit_pages).result(TIMEOUT_SECONDS)
    first, much, last = submit_together(writer_thread, add("first"), add_much, add("last"))
    assert is_disk_full(much.exception(TIMEOUT_SECONDS) or AssertionError("no error"))
    stored = set(Project.objects.values_list("name", flat=True))
    assert not any(len(name) == 100 for name in stored)
    for name, future in (("first", first), ("last", last)):
        assert (name in stored) == (future.exception(TIMEOUT_SECONDS) is None)
