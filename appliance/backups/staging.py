"""Collection of the files of a backup: copies of the databases, and the keys."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from appliance.backups import sqlite_copy
from appliance.backups.archive import digest
from appliance.backups.copied import Copied
from appliance.backups.errors import BackupError
from appliance.backups.manifest import (
    CONTROL,
    FORMAT,
    KEY_NAMES,
    METRICS,
    POSTGRESQL,
    Manifest,
)
from appliance.fleet.certificates import load_authority
from appliance.keys.models import KeyKind
from appliance.keys.slots import KeyState
from nodes.version import AGENT_VERSION

KEY_FILES = {KeyKind.CA: "ca{}.key", KeyKind.TICKET_KEY: "ticket_key{}"}
SPACE_FACTOR = 4
"""The copies, the archive, the encrypted archive and what is read back for the check."""
ATTEMPTS = 3
HIDDEN = ("BUSBAR_DATABASE", "BUSBAR_DATA", "BUSBAR_SFTP_PASSWORD", "BUSBAR_TOKEN")


def stage(folder: Path) -> Manifest:
    """Put everything that a backup contains into an empty folder.

    Raises BackupError if the disk has no space for it, or if keys were replaced meanwhile.
    """
    require_space()
    for _ in range(ATTEMPTS):
        began = datetime.now(UTC).replace(microsecond=0)
        copied = copy_databases(folder)
        copy_keys(folder)
        if not missing_keys(folder, copied):
            return describe(folder, copied, began)
        for path in folder.iterdir():
            path.unlink()
    raise BackupError("Keys of the appliance are missing in its data folder. Run: busbar ca status")


def require_space() -> None:
    size = sum(p.stat().st_size for p in database_files())
    free = shutil.disk_usage(settings.DATA_DIR).free
    if free < SPACE_FACTOR * size:
        raise BackupError(
            f"The data folder has {free >> 20} MiB left; a backup needs up to "
            f"{SPACE_FACTOR * size >> 20} MiB there. Free space first."
        )


def database_files() -> list[Path]:
    names = [] if settings.ENVIRONMENT.database else [CONTROL, METRICS]
    files = [settings.DATA_DIR / (name + ending) for name in names for ending in ("", "-wal")]
    return [path for path in files if path.exists()]


def copy_databases(folder: Path) -> Copied:
    if settings.ENVIRONMENT.database:
        from appliance.backups import postgresql_copy

        return postgresql_copy.dump(settings.DATABASES["default"], folder / POSTGRESQL)
    for name in (CONTROL, METRICS):
        sqlite_copy.copy(settings.DATA_DIR / name, folder / name)
    counts = {name: sqlite_copy.check(folder / name) for name in (CONTROL, METRICS)}
    both = {m for name in (CONTROL, METRICS) for m in sqlite_copy.migrations(folder / name)}
    return Copied(counts, tuple(sorted(both)), sqlite_copy.key_rows(folder / CONTROL))


def copy_keys(folder: Path) -> None:
    for path in settings.DATA_DIR.iterdir():
        if re.fullmatch(KEY_NAMES, path.name):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue  # a rotation has ended; `missing_keys` tells whether it is needed
            (folder / path.name).touch(mode=0o600)
            (folder / path.name).write_bytes(content)


def missing_keys(folder: Path, copied: Copied) -> list[str]:
    """Return the files of keys that the copied database names and that are not in the folder."""
    slots = [(kind, slot) for kind in KeyKind for slot in slots_in(copied, kind)]
    wanted = [KEY_FILES[kind].format(slot) for kind, slot in slots] + ["secret_key", "ca.pem"]
    return [name for name in wanted if not (folder / name).exists()]


def slots_in(copied: Copied, kind: KeyKind) -> tuple[str, ...]:
    row = copied.keys.get(kind.value)
    return (KeyState(*row) if row else KeyState()).accepted


def describe(folder: Path, copied: Copied, began: datetime) -> Manifest:
    return Manifest(
        format=FORMAT,
        id=secrets.token_hex(4),
        created_at=began,
        version=AGENT_VERSION,
        database="postgresql" if settings.ENVIRONMENT.database else "sqlite",
        ca_sha256=load_authority(folder, slots_in(copied, KeyKind.CA)[0]).fingerprint,
        migrations=copied.migrations,
        counts=copied.counts,
        files={path.name: digest(path) for path in folder.iterdir()},
        environment=variables(os.environ),
    )


def variables(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the variables of the appliance, which lie outside of its data folder."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith("BUSBAR_") and name not in HIDDEN
    }
