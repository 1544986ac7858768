"""Migrated, empty SQLite databases for appliances that tests start.

Migrations take over 1 s of processor time for each new data folder. They run once for each state of
the sources; `./run --check` and tests/appliance/running/test_process.py start appliances whose own
migrations run. Tests in the process of pytest begin with copies, too; with PostgreSQL they migrate.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from pathlib import Path

from deploy.supervisor import ROOT

DATABASES = ("control.db", "metrics.db")
STORED = ROOT / "build" / "pytest" / "migrated"


def place_migrated_databases(data: Path) -> None:
    """Copy the databases into a data folder that has none."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name in DATABASES:
        if not (data / name).exists():
            shutil.copy(migrated() / name, data / name)


def fill_memory_database(alias: str, file: str) -> sqlite3.Connection:
    """Copy a migrated database into the one that Django's tests have in the memory of this process.

    It lasts as long as a connection to it.
    """
    name = f"file:memorydb_{alias}?mode=memory&cache=shared"  # as Django names it
    target = sqlite3.connect(name, uri=True, check_same_thread=False)
    with closing(sqlite3.connect(migrated() / file)) as source:
        source.backup(target)
    return target


@cache
def migrated() -> Path:
    """Return the folder of the databases."""

    def fill(made: Path) -> None:
        for database in ("default", "metrics"):
            migrate(made, database)

    return stored(fingerprint(), fill)


def stored(name: str, fill: Callable[[Path], None]) -> Path:
    """Return the stored folder with this name, which `fill` fills if it is missing.

    Another process may make the same one; the first wins.
    """
    target = STORED / name
    if target.exists():
        return target
    STORED.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=STORED))
    fill(made)
    try:
        made.rename(target)
    except OSError:
        shutil.rmtree(made)
    return target


def migrate(data: Path, database: str) -> None:
    """Apply all migrations. The last connection to a database removes its write-ahead log."""
    command = [sys.executable, "manage.py", "migrate", "-v", "0", "--database", database]
    env = os.environ | {"BUSBAR_DATABASE": "", "BUSBAR_DATA": str(data)}
    subprocess.run(command, cwd=ROOT, env=env, check=True)


def fingerprint() -> str:
    """Return a checksum of all migrations and of the settings."""
    return checksum([*ROOT.glob("appliance/*/migrations/*.py"), ROOT / "appliance" / "settings.py"])


def checksum(sources: Iterable[Path]) -> str:
    """Return a checksum of the names and contents of files."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
