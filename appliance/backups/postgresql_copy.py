"""Dumps of the PostgreSQL database, and their check in a scratch database.

The programs pg_dump and pg_restore are PostgreSQL's own; passwords reach them by the environment.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from appliance.backups.copied import KEY_ROWS, Copied
from appliance.backups.errors import BackupError
from appliance.backups.manifest import Counts

Database = Mapping[str, Any]
"""An entry of Django's DATABASES."""
LIMIT_SECONDS = 6 * 3600
TABLES: LiteralString = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
NO_SCRATCH = (
    "The check of a backup needs a scratch database, which the appliance's role may not create. "
    "Permit it as the database's administrator: ALTER ROLE {} CREATEDB"
)


def connect(database: Database, name: str = "") -> psycopg.Connection[Any]:
    """Connect to a database. Raises BackupError."""
    parts = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASSWORD"}
    arguments = {key: database[entry] for key, entry in parts.items() if database[entry]}
    try:
        return psycopg.connect(dbname=name or database["NAME"], **arguments)
    except psycopg.Error as error:
        raise BackupError(f"PostgreSQL cannot be reached: {str(error).strip()}.") from None


def run(database: Database, program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs. Raises BackupError with its last line."""
    if shutil.which(program) is None:
        raise BackupError(
            f"{program} is missing. Install PostgreSQL's client: apt-get install postgresql-client"
        )
    variables = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD"}
    environment = os.environ | {v: str(database[k]) for v, k in variables.items() if database[k]}
    done = subprocess.run(
        [program, "--no-password", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise BackupError(f"{program} failed: {lines[-1]}")


def dump(database: Database, target: Path) -> Copied:
    """Write a dump as of one moment."""
    with connect(database) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert row is not None
        run(
            database,
            "pg_dump",
            "--format=custom",
            "--compress=0",
            "--no-owner",
            "--no-privileges",
            f"--snapshot={row[0]}",
            f"--file={target}",
            str(database["NAME"]),
        )
        keys = {kind: tuple(row) for kind, *row in connection.execute(KEY_ROWS).fetchall()}
        return Copied({target.name: count_rows(connection)}, migrations_in(connection), keys)


def count_rows(connection: psycopg.Connection[Any]) -> Counts:
    tables = sorted(name for (name,) in connection.execute(TABLES).fetchall())
    return {name: count_of(connection, name) for name in tables}


def count_of(connection: psycopg.Connection[Any], table: str) -> int:
    query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier("public", table))
    row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def migrations_in(connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    rows = connection.execute("SELECT app, name FROM django_migrations").fetchall()
    return tuple(sorted(f"{app}.{name}" for app, name in rows))


def check(database: Database, dumped: Path) -> Counts:
    """Restore a dump into a scratch database and return the rows of each table there."""
    with scratch_database(database) as name:
        restore(database, dumped, name)
        with connect(database, name) as connection:
            return count_rows(connection)


@contextmanager
def scratch_database(database: Database) -> Iterator[str]:
    """Create an empty database beside the appliance's, and drop it at the end."""
    name = f"busbar_check_{secrets.token_hex(4)}"
    administration = connect(database)
    administration.autocommit = True
    try:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))
        administration.execute(create)
    except psycopg.errors.InsufficientPrivilege:
        administration.close()
        raise BackupError(NO_SCRATCH.format(database["USER"])) from None
    except psycopg.Error as error:
        administration.close()
        raise BackupError(f"No scratch database: {str(error).strip()}.") from None
    try:
        yield name
    finally:
        administration.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
        administration.close()


def restore(database: Database, dumped: Path, name: str = "") -> None:
    """Restore a dump into an empty database, completely or not at all."""
    with connect(database, name) as connection:
        if connection.execute(TABLES).fetchone() is not None:
            raise BackupError(
                f"The database {name or database['NAME']} is not empty: it may hold an appliance. "
                "Create another one and name it in BUSBAR_DATABASE."
            )
    run(
        database,
        "pg_restore",
        "--single-transaction",
        "--exit-on-error",
        "--no-owner",
        "--no-privileges",
        f"--dbname={name or database['NAME']}",
        str(dumped),
    )
