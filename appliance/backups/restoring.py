"""Restore of a backup into a new data folder. Needs no Django: there is no appliance yet.

Everything happens in a folder beside the new one, which gets its name at the end. The part that
needs the database's models runs as `manage.py finish_restore` there.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from appliance.backups import verification
from appliance.backups.age_keys import read_identities
from appliance.backups.archive import NO_SPACE
from appliance.backups.destination import SftpLogin, opened
from appliance.backups.errors import BackupError
from appliance.backups.manifest import Manifest
from appliance.runtime import restored

ROOT = Path(__file__).resolve().parents[2]


class Source(NamedTuple):
    backup: str
    """Path of the file, or its SFTP URL."""
    login: SftpLogin
    identity: Path
    """File with the private key."""
    ca_sha256: str = ""
    """Fingerprint that the CA in the backup must have; empty: any."""


def restore(source: Source, data: Path, database: str) -> Manifest:
    """Restore a backup into a data folder that is absent or empty. Raises BackupError.

    `database` is the URL of an empty PostgreSQL database, or empty for SQLite.
    """
    data = data.resolve()
    require_empty(data)
    try:
        data.parent.mkdir(parents=True, exist_ok=True)
        work = data.with_name(f".{data.name}.restore-{secrets.token_hex(4)}")
        work.mkdir(mode=0o700)
        try:
            manifest = unpack(source, work)
            finish(work, manifest, database)
            work.rename(data)  # an empty folder is replaced
            sync(data.parent)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise BackupError(refusal(error)) from None
    return manifest


def check(source: Source, folder: Path) -> Manifest:
    """Check a backup as a restore does, in a new folder below `folder`, and keep nothing.

    A dump of PostgreSQL is compared with its hash only: there is no server for a scratch database.
    """
    work = folder / f".busbar-check-{secrets.token_hex(4)}"
    try:
        work.mkdir(mode=0o700)
        try:
            return unpack(source, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise BackupError(refusal(error)) from None


def require_empty(data: Path) -> None:
    if not data.exists() or (data.is_dir() and not any(data.iterdir())):
        return
    if origin := restored.read(data):
        raise BackupError(
            f"{data} was already restored from the backup {origin.backup}, at "
            f"{origin.restored_at:%Y-%m-%d %H:%M:%S} UTC. Nothing was changed."
        )
    raise BackupError(
        f"{data} is not empty: a restore never overwrites an appliance. Stop it and move the folder"
        " away, or name another one with --data."
    )


def unpack(source: Source, work: Path) -> Manifest:
    """Fetch, decrypt and check a backup; its files lie in the folder then."""
    identities = read_identities(source.identity)
    fetched = fetch(source, work)
    manifest = verification.restore_to_check(fetched, work, identities, None)
    if fetched.parent == work:
        fetched.unlink()
    wanted = source.ca_sha256.replace(":", "").lower()
    if wanted and wanted != manifest.ca_sha256:
        raise BackupError(
            f"The CA in the backup has the fingerprint {manifest.ca_sha256}, not {wanted}: it is of"
            " another appliance, or a stranger made it."
        )
    return manifest


def fetch(source: Source, work: Path) -> Path:
    if not source.backup.startswith("sftp:"):
        return Path(source.backup)
    folder, _, name = source.backup.rpartition("/")
    fetched = work / "fetched.age"
    with opened(folder, source.login, any_network=True) as destination:
        try:
            destination.download(name, fetched, shutil.disk_usage(work).free)
        except FileNotFoundError:
            raise BackupError(f"There is no file {source.backup}.") from None
    return fetched


def finish(work: Path, manifest: Manifest, database: str) -> None:
    if bool(database) != (manifest.database == "postgresql"):
        needs = {
            "postgresql": "Name an empty PostgreSQL database in BUSBAR_DATABASE.",
            "sqlite": "Unset BUSBAR_DATABASE.",
        }[manifest.database]
        raise BackupError(f"The backup is of an appliance with {manifest.database}. {needs}")
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "finish_restore"],
        env=os.environ | {"BUSBAR_DATA": str(work), "BUSBAR_DATABASE": database},
        input=manifest.model_dump_json(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise BackupError(lines[-1].removeprefix("CommandError: "))


def sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refusal(error: OSError) -> str:
    place = f" ({error.filename})" if error.filename else ""
    if NO_SPACE in str(error):
        return f"Nothing was restored: no space is left on the device{place}."
    return f"Nothing was restored: {error.strerror or error}{place}."
