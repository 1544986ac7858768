"""The thread that writes: what comes together is committed together, and what fails is undone by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import IntegrityError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from rest_framework.test import APIClient

from appliance import writer
from appliance.accounts.models import Project
from appliance.errors import ApplianceError
from appliance.writer import Writer, may_fail
from tests.appliance.conftest import Cast

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 20.0


@pytest.fixture
def made() -> Iterator[Writer]:
    one = Writer()
    yield one
    one.stop()


def together(made: Writer, *works: Callable[[], object]) -> list[Future[object]]:
    """In one commit: the writer is held up until all of them wait."""
    waiting, all_there = threading.Event(), threading.Event()

    def hold() -> None:
        waiting.set()
        assert all_there.wait(SECONDS)

    made.submit(hold)
    assert waiting.wait(SECONDS)
    futures = [made.submit(work) for work in works]
    all_there.set()
    return futures


def add(name: str) -> Callable[[], str]:
    return lambda: str(Project.objects.create(name=name).name)


def test_one_that_fails_costs_no_other_its_change(made: Writer) -> None:
    def fails() -> None:
        Project.objects.create(name="half")
        raise ValueError("on purpose")

    first, bad, last = together(made, add("first"), fails, add("last"))
    assert (first.result(SECONDS), last.result(SECONDS)) == ("first", "last")
    with pytest.raises(ValueError, match="on purpose"):
        bad.result(SECONDS)
    assert {"first", "last"} <= set(
        Project.objects.values_list("name", flat=True)
    ) and not Project.objects.filter(name="half").exists()


def test_people_are_refused_when_too_many_wait_and_nodes_are_not(
    made: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_WAITING_WRITES", 1)
    waiting, go_on = threading.Event(), threading.Event()
    made.submit(lambda: (waiting.set(), go_on.wait(SECONDS)))
    assert waiting.wait(SECONDS)
    first = made.submit(add("first"))
    with pytest.raises(ApplianceError, match="too many changes"):
        made.submit(add("second"))
    nodes = made.submit(add("of a node"), must=True)
    go_on.set()
    assert (first.result(SECONDS), nodes.result(SECONDS)) == ("first", "of a node")


def test_what_the_appliance_does_every_second_is_not_refused_when_too_many_wait(
    made: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_WAITING_WRITES", 1)
    monkeypatch.setattr(writer, "_writer", made)
    waiting, go_on, asked = threading.Event(), threading.Event(), threading.Event()
    made.submit(lambda: (waiting.set(), go_on.wait(SECONDS)))
    assert waiting.wait(SECONDS)
    made.submit(add("of people"))

    def submit(work: Callable[[], object], *, must: bool = False) -> Future[object]:
        try:
            return Writer.submit(made, work, must=must)
        finally:
            asked.set()

    monkeypatch.setattr(made, "submit", submit)
    with ThreadPoolExecutor(1) as housekeeping:
        due = housekeeping.submit(writer.writes(add("due")))
        assert asked.wait(SECONDS)
        go_on.set()
        assert due.result(SECONDS) == "due"


def test_a_part_that_may_fail_undoes_only_itself(made: Writer) -> None:
    otherwise: list[str] = []

    def part() -> None:
        Project.objects.create(name="undone")
        raise IntegrityError("another scheduler was first")

    def whole() -> str:
        Project.objects.create(name="whole")
        may_fail(part, (IntegrityError,), lambda: otherwise.append("said"))
        return "done"

    (only,) = together(made, whole)
    assert only.result(SECONDS) == "done" and otherwise == ["said"]
    assert (
        Project.objects.filter(name="whole").exists()
        and not Project.objects.filter(name="undone").exists()
    )


def test_nobody_is_told_that_it_is_done_when_the_connection_was_closed_meanwhile(
    made: Writer,
) -> None:
    (closing,) = together(
        made, lambda: (Project.objects.create(name="lost"), BaseDatabaseWrapper.close(connection))
    )
    with pytest.raises(Exception, match="closed"):
        closing.result(SECONDS)
    assert not Project.objects.filter(name="lost").exists()
    (after,) = together(made, add("after"))
    assert after.result(SECONDS) == "after"


def test_listeners_hear_of_a_commit_before_its_answer(
    made: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    futures: list[Future[object]] = []
    monkeypatch.setattr(
        writer, "_commit_listeners", [lambda: seen.append(any(f.done() for f in futures))]
    )
    futures += together(made, add("one"), add("two"))
    for future in futures:
        future.result(SECONDS)
    assert seen and not any(seen)


def test_a_process_that_only_looks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_writer", None)
    writer.only_look()
    try:
        with pytest.raises(RuntimeError):
            writer.writes(add("never"))()
    finally:
        writer._writer = None
    connections.close_all()
    assert not Project.objects.filter(name="never").exists()


def test_what_is_asked_for_can_be_done_twice(
    made: Writer, monkeypatch: pytest.MonkeyPatch, cast: Cast, client_of: Callable[..., APIClient]
) -> None:
    monkeypatch.setattr(writer, "_writer", made)
    client = client_of(cast.olga)
    for status in (201, 409):  # the second fails in the first attempt, and is made again by itself
        assert client.post("/api/v1/pools", {"name": "twice"}, format="json").status_code == status
    for status in (201, 409):
        quota = {"subject_kind": "user", "subject": "alice", "quota_gpus": 1.0}
        assert client.post("/api/v1/quotas", quota, format="json").status_code == status
