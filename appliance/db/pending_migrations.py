"""Which migrations a database lacks.

A squashed migration names those that it replaces. A database has applied all of them or none: of
those that have some, Django would leave the squashed migration out, and their tables stay old.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import OperationalError, connections
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader


def lacks_migrations(database: str) -> bool:
    """Return whether `migrate` has work to do. It takes ten times as long to find that out.

    Raises SystemExit if the database cannot be opened, or has some of the migrations that a
    squashed one replaces.
    """
    try:
        executor = MigrationExecutor(connections[database])
    except OperationalError as error:
        raise SystemExit(
            f"The database cannot be opened. Check BUSBAR_DATABASE and the data folder. {error}"
        ) from None
    applied = executor.recorder.applied_migrations().keys()
    if missing := missing_replaced(executor.loader, applied):
        raise SystemExit(
            f"The database '{database}' was made by an unreleased version that lacks the migration "
            f"{missing}. Start it once with the newest version that contains this migration, then "
            "with this one. If its first start was interrupted, remove the new data folder."
        )
    unrecorded = executor.loader.replacements.keys() - applied  # `migrate` records these
    return bool(unrecorded or executor.migration_plan(executor.loader.graph.leaf_nodes()))


def missing_replaced(loader: MigrationLoader, applied: Collection[tuple[str, str]]) -> str:
    """Return a replaced migration that is missing while others are applied, as app.name, or ""."""
    for squashed in loader.replacements.values():
        missing = [name for name in squashed.replaces if name not in applied]
        if 0 < len(missing) < len(squashed.replaces):
            return ".".join(missing[-1])
    return ""
