"""Requests while PostgreSQL cannot be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from appliance.accounts.models import User
from appliance.api.database_refusals import LOST, refusal_of
from appliance.api.errors import Code
from appliance.db.pending_migrations import lacks_migrations
from appliance.db.writer import DatabaseThreads, Writer, run_each_in_savepoint
from tests.appliance.conftest import Cast, body
from tests.appliance.test_writer import add, submit_together

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not settings.ENVIRONMENT.database, reason="of PostgreSQL"),
]


@contextmanager
def lost_database() -> Iterator[None]:
    """Nothing listens on the port where the database is expected."""
    address = {name: connection.settings_dict[name] for name in ("HOST", "PORT")}
    connection.close()
    connection.settings_dict.update(HOST="127.0.0.1", PORT="1")
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(address)


def test_requests_are_refused_as_busy(cast: Cast, client_of: Callable[[User | None], Any]) -> None:
    admin = client_of(cast.admin)
    with lost_database():
        refused = admin.get("/api/v1/nodes")
    assert refused.status_code == 503 and refused["Retry-After"] == "1"
    assert body(refused)["code"] == "busy" and body(refused)["detail"] == LOST
    assert admin.get("/api/v1/nodes").status_code == 200


def test_appliance_is_not_ready(cast: Cast) -> None:
    with lost_database():
        response = Client().get("/readyz")
    assert response.status_code == 503 and response.json()["ready"] is False


def test_appliance_does_not_start(cast: Cast) -> None:
    with lost_database(), pytest.raises(SystemExit, match=r"BUSBAR_DATABASE.*refused"):
        lacks_migrations("default")


def end_connection() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def end_connection_in_an_item() -> None:
    run_each_in_savepoint("work", ["item"], lambda _: end_connection())


@pytest.mark.parametrize("work", [end_connection, end_connection_in_an_item])
def test_writes_of_a_lost_connection_are_refused_as_busy(
    cast: Cast, work: Callable[[], None]
) -> None:
    writer = Writer()
    try:
        writes = submit_together(writer, add("first"), work, add("last"))
        refusals = [refusal_of(w.exception(60) or Exception()) for w in writes]
        assert [r and (r.code, r.detail) for r in refusals] == [(Code.BUSY, LOST)] * 3
        assert writer.submit(add("after")).result(60) == "after"
    finally:
        writer.stop()


def test_background_work_connects_again_after_the_server_ended_its_connection(cast: Cast) -> None:
    def backend() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return int(cursor.fetchone()[0])

    threads = DatabaseThreads(1)
    try:
        first = threads.submit(backend).result(60)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 60000)", [first])
        assert threads.submit(backend).result(60) != first
    finally:
        threads.submit(lambda: connection.close()).result(60)
        threads.shutdown()
