"""Limit of the waits for locks on PostgreSQL.

An appliance that hangs in a transaction must not stop the writer threads of the others. Migrations
wait without a limit: a backup holds its locks for minutes.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate, pre_migrate

LOCK_TIMEOUT_MS = 5000


def follow(app: AppConfig) -> None:
    """Set the limit of each new connection, which PgBouncer refuses as a parameter of its start.

    `app` is any one with models: its signals tell when migrations begin and end.
    """
    connection_created.connect(on_connection, dispatch_uid="lock-timeout")
    pre_migrate.connect(on_migration, sender=app, dispatch_uid="lock-timeout-migration")
    post_migrate.connect(on_migrated, sender=app, dispatch_uid="lock-timeout-migrated")


def on_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    set_timeout(connection, LOCK_TIMEOUT_MS)


def on_migration(using: str, **_: Any) -> None:
    set_timeout(connections[using], 0)


def on_migrated(using: str, **_: Any) -> None:
    set_timeout(connections[using], LOCK_TIMEOUT_MS)


def set_timeout(connection: BaseDatabaseWrapper, milliseconds: int) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {milliseconds}")
