"""Creation of a backup: copy, encryption, upload, check, and only then its final name."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyrage
from django.conf import settings

from appliance.backups import archive
from appliance.backups.age_keys import read_recipients
from appliance.backups.archive import NO_SPACE, digest
from appliance.backups.destination import PART, Destination
from appliance.backups.errors import BackupError
from appliance.backups.manifest import Manifest
from appliance.backups.staging import stage
from appliance.backups.verification import restore_to_check
from appliance.backups.working_folder import working_folder

Report = Callable[[int, str], None]
"""Called with a percentage and a message before each step. May raise to cancel."""


class Made(NamedTuple):
    """A backup that was checked and has its final name."""

    name: str
    size: int
    sha256: str
    seconds: float
    manifest: Manifest


def name_of(manifest: Manifest) -> str:
    return f"busbar-{manifest.created_at:%Y%m%dT%H%M%SZ}-{manifest.id}.age"


def make_backup(destination: Destination, report: Report) -> Made:
    """Make a backup and check it. Raises BackupError; nothing is left at the destination then."""
    began = time.monotonic()
    data: Path = settings.DATA_DIR
    recipients = read_recipients(data)
    try:
        with working_folder(data) as work:
            report(10, "Copying the database and the keys")
            (staged := work / "staged").mkdir(mode=0o700)
            manifest = stage(staged)
            name = name_of(manifest)
            report(40, "Encrypting")
            # A key of this process only, with which the stored backup is opened for its check.
            check_key = pyrage.x25519.Identity.generate()
            archive.pack(staged, manifest, work / name, [*recipients, check_key.to_public()])
            expected = digest(work / name)
            store(destination, work, name, check_key, report)
    except OSError as error:
        raise BackupError(refusal(error)) from None
    seconds = time.monotonic() - began
    return Made(name, expected.size, expected.sha256, seconds, manifest)


def store(
    destination: Destination,
    work: Path,
    name: str,
    check_key: pyrage.x25519.Identity,
    report: Report,
) -> None:
    """Upload the backup, read it back, restore it to check it, and give it its final name."""
    try:
        report(60, f"Storing {name}")
        destination.upload(work / name, name)
        report(75, "Checking the stored backup in a scratch database")
        returned, checked = work / "returned.age", work / "checked"
        checked.mkdir(mode=0o700)
        stored = digest(work / name)
        destination.download(name + PART, returned, stored.size)
        if digest(returned) != stored:
            raise BackupError("The destination returned another content than was stored there.")
        scratch = settings.DATABASES["default"] if settings.ENVIRONMENT.database else None
        restore_to_check(returned, checked, [check_key], scratch)
        destination.publish(name)
    except BaseException:
        with contextlib.suppress(Exception):
            destination.delete(name + PART)
        raise


def refusal(error: OSError) -> str:
    """Return the message for an error of a file system or of an SFTP server."""
    place = f" ({error.filename})" if error.filename else ""
    if NO_SPACE in str(error):
        return f"No backup was made: no space is left on the device{place}."
    return f"No backup was made: {error.strerror or error}{place}."
