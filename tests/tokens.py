"""API tokens for running appliances, without a process of `manage.py create_token` for each.

That process takes 1 s of processor time. A token depends on no key of the data folder, so that the
command runs once for each user and role, and for each state of the sources. Appliances get copies
of the rows that it made.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from deploy.supervisor import ROOT
from tests.migrated import checksum, fingerprint, migrated, stored

TABLES = ("accounts_user", "accounts_rolebinding", "accounts_apitoken")
LIFETIME = timedelta(hours=24)
WAIT_SECONDS = 60.0


def create_token(data: Path, user: str = "local", role: str = "administrator") -> str:
    """Add a service user's token to the SQLite database of a data folder. Return its text.

    Appliances of the same sources have the same token. Call it once for each user and appliance: a
    second call raises sqlite3.IntegrityError.
    """
    made = made_token(user, role)
    now = datetime.now(UTC)
    times = [f"{time:%F %T.%f}" for time in (now, now, now + LIFETIME)]
    with closing(sqlite3.connect(data / "control.db", WAIT_SECONDS)) as database:
        database.execute("ATTACH ? AS made", [str(made / "control.db")])
        with database:
            for table in TABLES:
                database.execute(f"INSERT INTO {table} SELECT * FROM made.{table}")
            database.execute(
                "UPDATE accounts_apitoken SET created_at = ?, signed_in_at = ?, expires_at = ?"
                " WHERE id IN (SELECT id FROM made.accounts_apitoken)",
                times,
            )
    return (made / "token").read_text()


@cache
def made_token(user: str, role: str) -> Path:
    """Return a folder with the text of a token and a database that has only its rows."""

    def fill(made: Path) -> None:
        shutil.copy(migrated() / "control.db", made)
        command = [sys.executable, "manage.py", "create_token", "--user", user, "--role", role]
        env = os.environ | {"BUSBAR_DATABASE": "", "BUSBAR_DATA": str(made)}
        done = subprocess.run(
            command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True
        )
        (made / "token").write_text(done.stdout.splitlines()[-1])

    sources = checksum(ROOT.glob("appliance/accounts/**/*.py"))
    return stored(f"{fingerprint()}-{sources}-{user}-{role}", fill)
