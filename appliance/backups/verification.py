"""Check of a backup by restoring it into a folder and, with PostgreSQL, a scratch database."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyrage
from cryptography.hazmat.primitives import serialization

from appliance.backups import archive, sqlite_copy
from appliance.backups.errors import BackupError
from appliance.backups.manifest import CONTROL, METRICS, POSTGRESQL, Counts, Manifest

if TYPE_CHECKING:
    from appliance.backups.postgresql_copy import Database


def restore_to_check(
    source: Path,
    folder: Path,
    identities: Sequence[pyrage.x25519.Identity],
    scratch: Database | None,
) -> Manifest:
    """Unpack a backup into an empty folder and compare the databases with the manifest.

    `scratch` is a PostgreSQL server for a scratch database. Raises BackupError for a backup that is
    not as it was made.
    """
    manifest = archive.unpack(source, folder, identities)
    for name, counts in manifest.counts.items():
        if name != POSTGRESQL:
            require_equal(name, sqlite_copy.check(folder / name), counts)
        elif scratch is not None:
            from appliance.backups import postgresql_copy

            require_equal(name, postgresql_copy.check(scratch, folder / name), counts)
    require_complete(manifest, folder)
    return manifest


def require_equal(name: str, found: Counts, expected: Counts) -> None:
    for table in sorted(found.keys() | expected.keys()):
        if found.get(table) != expected.get(table):
            raise BackupError(
                f"The backup is not good: table {table} of {name} has {found.get(table)} rows, not "
                f"{expected.get(table)}."
            )


def require_complete(manifest: Manifest, folder: Path) -> None:
    """Raise BackupError if databases or keys are missing, or do not belong together."""
    databases = (POSTGRESQL,) if manifest.database == "postgresql" else (CONTROL, METRICS)
    needed = {*databases, "secret_key", "ca.pem"}
    if missing := needed - manifest.files.keys():
        raise BackupError(f"The backup is not good: it lacks {', '.join(sorted(missing))}.")
    if manifest.counts.keys() != set(databases):
        raise BackupError("The backup is not good: its manifest lacks the rows of a database.")
    if not any(name.startswith("ticket_key") for name in manifest.files):
        raise BackupError("The backup is not good: it lacks the ticket key.")
    if manifest.ca_sha256 not in {fingerprint(p) for p in folder.glob("ca*.key")}:
        raise BackupError("The backup is not good: it lacks the key of its CA.")


def fingerprint(path: Path) -> str:
    """Return the fingerprint of a CA whose file has the key of its certificate, otherwise ""."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    content = path.read_bytes()
    try:
        key = serialization.load_pem_private_key(content, None)
        certificate = x509.load_pem_x509_certificate(content)
    except ValueError:
        return ""
    matches = key.public_key() == certificate.public_key()
    return certificate.fingerprint(hashes.SHA256()).hex() if matches else ""
