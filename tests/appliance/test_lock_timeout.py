"""Waits for locks on PostgreSQL: limited, except for those of migrations."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.models.signals import post_migrate, pre_migrate

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(not settings.ENVIRONMENT.database, reason="of PostgreSQL"),
]


def timeout() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        return str(cursor.fetchone()[0])


def test_each_connection_has_a_limit_and_none_in_its_startup_parameters() -> None:
    connection.close()
    assert timeout() == "5s"
    assert "options" not in connection.get_connection_params()


def test_migrations_wait_without_a_limit() -> None:
    found: list[str] = []
    sender = apps.get_app_config("configuration")

    def record(**_: object) -> None:
        found.append(timeout())

    pre_migrate.connect(record, sender=sender)
    post_migrate.connect(record, sender=sender)
    try:
        call_command("migrate", interactive=False, verbosity=0)
    finally:
        pre_migrate.disconnect(record, sender=sender)
        post_migrate.disconnect(record, sender=sender)
    assert found == ["0", "5s"]
