"""Limit of the waits for locks on PostgreSQL.

An appliance that hangs in a transaction must not stop the writer threads of the others. Migrations
wait without a limit: a backup holds its locks for minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

LOCK_TIMEOUT_MS = 5000


@contextmanager
def limited_transaction() -> Iterator[None]:
    """Open a transaction whose waits for locks are limited, or a savepoint of the open one.

    The limit is one of the transaction: with a pooler that passes each transaction to another
    session, a limit of the session would reach other clients and not this one. PgBouncer refuses
    it as a parameter of the start of a connection.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
        yield
