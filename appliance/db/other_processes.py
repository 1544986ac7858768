"""Commits of other processes to the control database, such as those of manage.py.

The change log contains only changes of this process. SQLite counts the commits of all other
connections, and all connections of the controller that write are the one of the writer thread.
With PostgreSQL nothing is detected: nothing is cached there, because other appliances also write.
"""

from __future__ import annotations

from django.db import connection

from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import write_transaction


class _LastSeen:
    """Connection of the last call, and SQLite's number of commits by others."""

    connection: object = None
    version = 0


@write_transaction
def publish_other_commits() -> None:
    """Record a change of users, tokens and roles if another process has committed since."""
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        (version,) = cursor.execute("PRAGMA data_version").fetchone()
    if _LastSeen.connection is connection.connection and _LastSeen.version == version:
        return
    _LastSeen.connection, _LastSeen.version = connection.connection, version
    change_log.record(Topic.IDENTITY)
