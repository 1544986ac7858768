"""Dumps of PostgreSQL for backups, restored into a scratch database and into an empty one."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.backups import postgresql_copy
from appliance.backups.errors import BackupError
from appliance.backups.manifest import POSTGRESQL
from appliance.backups.postgresql_copy import Database
from tests.postgresql import NAME, Cluster

TABLES = """
CREATE TABLE django_migrations (app text, name text);
CREATE TABLE keys_keyset (kind text, "current" text, "next" text, phase text);
CREATE TABLE "Rows" (id int PRIMARY KEY);
INSERT INTO django_migrations VALUES ('keys', '0001_initial');
INSERT INTO keys_keyset VALUES ('ca', '-00000001', '', 'idle');
INSERT INTO "Rows" SELECT generate_series(1, 1000);
"""


@pytest.fixture(scope="module")
def database() -> Database:
    cluster = Cluster()
    found = {"HOST": str(cluster.folder), "PORT": "", "USER": NAME, "PASSWORD": "", "NAME": NAME}
    with postgresql_copy.connect(found) as connection:
        connection.execute(TABLES)
    return found


def names(database: Database) -> set[str]:
    with postgresql_copy.connect(database) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}


def test_dump_is_checked_in_a_scratch_database_and_restored(
    database: Database, tmp_path: Path
) -> None:
    before = names(database)
    copied = postgresql_copy.dump(database, tmp_path / POSTGRESQL)
    assert copied.counts == {POSTGRESQL: {"Rows": 1000, "django_migrations": 1, "keys_keyset": 1}}
    assert copied.migrations == ("keys.0001_initial",)
    assert copied.keys == {"ca": ("-00000001", "", "idle")}
    assert postgresql_copy.check(database, tmp_path / POSTGRESQL) == copied.counts[POSTGRESQL]
    assert names(database) == before, "the scratch database is left"

    with pytest.raises(BackupError, match="is not empty: it may hold an appliance"):
        postgresql_copy.restore(database, tmp_path / POSTGRESQL)
    with postgresql_copy.scratch_database(database) as name:
        postgresql_copy.restore(database, tmp_path / POSTGRESQL, name)
        with postgresql_copy.connect(database, name) as connection:
            assert postgresql_copy.count_rows(connection) == copied.counts[POSTGRESQL]


def test_cut_dump_is_refused_and_no_table_is_left(database: Database, tmp_path: Path) -> None:
    postgresql_copy.dump(database, tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(content[: len(content) - 200])
    with postgresql_copy.scratch_database(database) as name:
        with pytest.raises(BackupError, match="pg_restore failed"):
            postgresql_copy.restore(database, tmp_path / "cut", name)
        with postgresql_copy.connect(database, name) as connection:
            assert postgresql_copy.count_rows(connection) == {}


def test_role_without_the_right_to_create_databases_is_told(
    database: Database, tmp_path: Path
) -> None:
    with postgresql_copy.connect(database) as connection:
        connection.execute("CREATE ROLE plain LOGIN")
    with (
        pytest.raises(BackupError, match="ALTER ROLE plain CREATEDB"),
        postgresql_copy.scratch_database({**database, "USER": "plain"}),
    ):
        pass


def test_missing_program_is_named(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BackupError, match="apt-get install postgresql-client"):
        postgresql_copy.run(database, "pg_dump")
