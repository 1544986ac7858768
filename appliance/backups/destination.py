"""Destinations of backups: a folder of this machine, or one of an SFTP server.

A backup is written under a name that ends with `.part`. It gets its final name when it has been
read back and checked, so a file with the final name is a good backup.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from appliance.backups.errors import BackupError

FINAL_NAME = re.compile(r"busbar-\d{8}T\d{6}Z-[0-9a-f]{8}\.age")
PART = ".part"
SFTP_PORT = 22
CHUNK = 1 << 20


class Stored(NamedTuple):
    name: str
    size: int


class Destination(Protocol):
    """A folder. Raises BackupError, or OSError of the folder."""

    def upload(self, source: Path, name: str) -> None:
        """Store a file under its name with the ending `.part`."""

    def download(self, name: str, target: Path, most: int) -> None:
        """Copy a file of any name to this machine. Raises BackupError beyond `most` bytes."""

    def publish(self, name: str) -> None:
        """Give the file with the ending `.part` its final name."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    def backups(self) -> list[Stored]:
        """Return the files with final names, the oldest first."""


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


def copy_within(source: Source, target: Path, most: int) -> None:
    """Copy to a new file. A server that sends on for ever does not fill the disk."""
    with target.open("wb") as file:
        while chunk := source.read(min(CHUNK, most + 1)):
            if (most := most - len(chunk)) < 0:
                raise BackupError("The destination returned more bytes than were stored there.")
            file.write(chunk)


class Folder:
    """A folder of this machine, or one that it has mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise BackupError(f"There is no folder {path}. Create it for the appliance's user.")

    def upload(self, source: Path, name: str) -> None:
        part = self.path / (name + PART)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with source.open("rb") as old, os.fdopen(descriptor, "wb") as new:
            shutil.copyfileobj(old, new, CHUNK)
            new.flush()
            os.fsync(new.fileno())

    def download(self, name: str, target: Path, most: int) -> None:
        with (self.path / name).open("rb") as source:
            copy_within(source, target, most)

    def publish(self, name: str) -> None:
        (self.path / (name + PART)).rename(self.path / name)
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def delete(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def backups(self) -> list[Stored]:
        found = [p for p in self.path.iterdir() if FINAL_NAME.fullmatch(p.name)]
        return sorted(Stored(p.name, p.stat().st_size) for p in found)


class SftpLogin(NamedTuple):
    """Credentials of the appliance at an SFTP server, and the pinned key of the server."""

    host_key: str
    """Fingerprint, as `ssh-keyscan HOST | ssh-keygen -lf -` prints it."""
    private_key: str = ""
    password: str = ""


class SftpUrl(NamedTuple):
    username: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, text: str) -> SftpUrl:
        """Parse sftp://USER@HOST[:PORT]/FOLDER. Raises ValueError."""
        parts = urlsplit(text)
        if parts.scheme != "sftp" or not parts.username or not parts.hostname or parts.password:
            raise ValueError(f"{text} is no sftp://USER@HOST[:PORT]/FOLDER")
        path = unquote(parts.path)
        return cls(unquote(parts.username), parts.hostname, parts.port or SFTP_PORT, path)


def check_text(text: str) -> None:
    """Raise ValueError for a text that names no destination."""
    if text.startswith("sftp:"):
        SftpUrl.parse(text)
    elif not text.startswith("/"):
        raise ValueError("a destination is an absolute path or sftp://USER@HOST[:PORT]/FOLDER")


@contextmanager
def opened(text: str, login: SftpLogin, *, any_network: bool = False) -> Iterator[Destination]:
    """Open the destination with this path or URL. Raises BackupError.

    An SFTP server must be in a network in which the appliance uses SSH, unless `any_network`.
    """
    try:
        check_text(text)
    except ValueError as error:
        raise BackupError(f"{error}.") from None
    if text.startswith("sftp:"):
        from appliance.backups.sftp import connected  # paramiko needs 15 MB

        with connected(SftpUrl.parse(text), login, any_network) as server:
            yield server
    else:
        yield Folder(Path(text))
