"""Waits for locks on PostgreSQL: limited in the transactions of services, and only there."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import pre_migrate

from appliance.db.writer import Writer, run_in_transaction

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not settings.ENVIRONMENT.database, reason="of PostgreSQL"),
]


def timeout() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        return str(cursor.fetchone()[0])


def test_limit_ends_with_the_transaction() -> None:
    """A pooler of transactions passes the session to another client then."""
    connection.close()
    assert timeout() == "0"
    assert run_in_transaction(timeout) == "5s"
    assert timeout() == "0"
    assert "options" not in connection.get_connection_params()


def test_services_nest_without_another_limit() -> None:
    assert run_in_transaction(lambda: run_in_transaction(timeout)) == "5s"


def test_writer_thread_limits_its_waits() -> None:
    writer = Writer()
    try:
        assert writer.submit(timeout).result(60) == "5s"
    finally:
        writer.stop()


def test_migrations_wait_without_a_limit() -> None:
    found: list[str] = []
    sender = apps.get_app_config("configuration")

    def record(**_: object) -> None:
        found.append(timeout())

    pre_migrate.connect(record, sender=sender)
    try:
        call_command("migrate", interactive=False, verbosity=0)
    finally:
        pre_migrate.disconnect(record, sender=sender)
    assert found == ["0"]
