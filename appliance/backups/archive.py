"""The file of a backup: a compressed tar archive, encrypted with age."""

from __future__ import annotations

import hashlib
import os
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pyrage

from appliance.backups.errors import BackupError
from appliance.backups.manifest import MAX_BYTES, NAME, FileEntry, Manifest, parse

CHUNK = 1 << 20
WRONG_KEY = "None of the keys opens the backup. It was encrypted for another key."
DAMAGED = "The backup is cut or altered ({}). Take another copy of it, or another backup."
NO_SPACE = "No space left on device"


def digest(path: Path) -> FileEntry:
    with path.open("rb") as file:
        return FileEntry(
            size=path.stat().st_size, sha256=hashlib.file_digest(file, "sha256").hexdigest()
        )


def pack(
    folder: Path, manifest: Manifest, target: Path, recipients: Sequence[pyrage.x25519.Recipient]
) -> None:
    """Write the files that the manifest names into a new encrypted file, which is on disk then."""
    (folder / NAME).write_text(manifest.model_dump_json(indent=1))
    plain = target.with_name(target.name + ".tar")
    try:
        with tarfile.open(plain, "w:gz", compresslevel=3) as archive:
            for name in (NAME, *sorted(manifest.files)):
                archive.add(folder / name, name, recursive=False)
        with plain.open("rb") as source, open_private(target) as file:
            try:
                pyrage.encrypt_io(source, file, list(recipients))
            except pyrage.EncryptError as error:
                raise OSError(str(error)) from None
            file.flush()
            os.fsync(file.fileno())
    finally:
        plain.unlink(missing_ok=True)


def open_private(path: Path) -> IO[bytes]:
    """Create a file with mode 0600. Raises FileExistsError."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def unpack(source: Path, folder: Path, identities: Sequence[pyrage.x25519.Identity]) -> Manifest:
    """Decrypt a backup into an empty folder and compare its files with the manifest.

    Raises BackupError for a wrong key, a file that is cut or altered, or one that is no backup.
    """
    plain = folder / "archive.tar"
    decrypt(source, plain, identities)
    try:
        with tarfile.open(plain, "r|gz") as archive:
            manifest = read_members(archive, folder)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise BackupError(DAMAGED.format(error)) from None
    finally:
        plain.unlink(missing_ok=True)
    return manifest


def decrypt(source: Path, target: Path, identities: Sequence[pyrage.x25519.Identity]) -> None:
    try:
        with source.open("rb") as file, open_private(target) as plain:
            pyrage.decrypt_io(file, plain, list(identities))
    except FileNotFoundError:
        raise BackupError(f"There is no file {source}.") from None
    except pyrage.DecryptError as error:
        if "No matching keys" in str(error):
            raise BackupError(WRONG_KEY) from None
        raise BackupError(DAMAGED.format(f"{source.name} is no file of age")) from None
    except OSError as error:
        if error.errno is not None or NO_SPACE in str(error):
            raise
        raise BackupError(DAMAGED.format(error)) from None


def read_members(archive: tarfile.TarFile, folder: Path) -> Manifest:
    """Extract the members that the manifest, the first one, names; nothing else."""
    members = iter(archive)
    first = next(members, None)
    if first is None or first.name != NAME or not first.isreg() or first.size > MAX_BYTES:
        raise BackupError("The file is no backup of an appliance: it does not begin with one.")
    content = archive.extractfile(first)
    assert content is not None
    manifest = parse(content.read())
    missing = dict(manifest.files)
    for member in members:
        entry = missing.pop(member.name, None)
        if entry is None or not member.isreg() or member.size != entry.size:
            raise BackupError(DAMAGED.format(f"unexpected member {member.name!r}"))
        source = archive.extractfile(member)
        assert source is not None
        if copy(source, folder / member.name) != entry.sha256:
            raise BackupError(DAMAGED.format(f"{member.name} has another hash"))
    if missing:
        raise BackupError(DAMAGED.format(f"{', '.join(sorted(missing))} missing"))
    return manifest


def copy(source: IO[bytes], target: Path) -> str:
    """Write a new private file to disk and return its hash."""
    hashed = hashlib.sha256()
    with open_private(target) as file:
        while chunk := source.read(CHUNK):
            hashed.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return hashed.hexdigest()
