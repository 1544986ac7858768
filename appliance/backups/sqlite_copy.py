"""Copies of SQLite databases while they are in use, and their check."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from appliance.backups.copied import KEY_ROWS, KeyRow
from appliance.backups.errors import BackupError
from appliance.backups.manifest import Counts

BUSY_SECONDS = 30.0


def copy(source: Path, target: Path) -> None:
    """Copy a database as of one moment into one file. Writers go on meanwhile."""
    uri = f"{source.resolve().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)  # all pages in one step: the WAL keeps them as of its begin
        new.execute("PRAGMA journal_mode=DELETE").fetchall()


def check(path: Path) -> Counts:
    """Return the number of rows of each table. Raises BackupError for a damaged database."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            require_intact(database, path.name)
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            return {name: count_rows(database, name) for (name,) in sorted(tables)}
    except sqlite3.DatabaseError as error:
        raise BackupError(f"The database {path.name} is damaged: {error}.") from None


def require_intact(database: sqlite3.Connection, name: str) -> None:
    (result,) = database.execute("PRAGMA integrity_check(1)").fetchone()
    if result != "ok":
        raise BackupError(f"The database {name} is damaged: {result}.")
    if broken := database.execute("PRAGMA foreign_key_check").fetchone():
        raise BackupError(f"The database {name} is damaged: a row of {broken[0]} has no parent.")


def count_rows(database: sqlite3.Connection, table: str) -> int:
    quoted = table.replace('"', '""')
    (count,) = database.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()  # noqa: S608
    return int(count)


def migrations(path: Path) -> tuple[str, ...]:
    """Return the applied migrations, as app.name."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT app, name FROM django_migrations").fetchall()
    return tuple(sorted(f"{app}.{name}" for app, name in rows))


def key_rows(path: Path) -> dict[str, KeyRow]:
    """Return the row of each kind of keys that was rotated."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
        return {kind: tuple(row) for kind, *row in database.execute(KEY_ROWS).fetchall()}
