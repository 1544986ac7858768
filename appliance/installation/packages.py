"""Packages of the client that the appliance serves, with the hashes that its script names."""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
import threading
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from appliance.api.errors import ApplianceError, Code

DEBIAN_NAME = re.compile(r"busbar-client_[A-Za-z0-9.+~-]+_amd64\.deb")
ARCHIVE_NAME = "busbar-client.tar.gz"
NOT_BUILT = (
    "This appliance has no client packages. Its administrator builds them, in its checkout, with: "
    ".venv/bin/python -m deploy.packages client"
)

State = tuple[tuple[str, int, int], ...]
"""Path, size and time of change of each file."""


class Package(NamedTuple):
    name: str
    content: bytes
    sha256: str


class Packages(NamedTuple):
    debian: Package
    archive: Package
    installed_bytes: int
    """Size of the unpacked archive."""

    def named(self, name: str) -> Package | None:
        return next((p for p in (self.debian, self.archive) if p.name == name), None)


def files(folder: Path) -> list[Path]:
    """Return the Debian package and the archive. Raises ApplianceError (NOT_FOUND)."""
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    debian = sorted(name for name in names if DEBIAN_NAME.fullmatch(name))
    if len(debian) != 1 or ARCHIVE_NAME not in names:
        raise ApplianceError(Code.NOT_FOUND, NOT_BUILT)
    return [folder / debian[0], folder / ARCHIVE_NAME]


def read(path: Path) -> Package:
    content = path.read_bytes()
    return Package(path.name, content, hashlib.sha256(content).hexdigest())


def unpacked_bytes(archive: Path) -> int:
    with tarfile.open(archive) as tar:
        return sum(member.size for member in tar)


class PackageCache:
    """The packages in memory, which all clients share. Read again after they were built anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: State = ()
        self._packages: Packages | None = None

    def load(self) -> Packages:
        """Return the packages of the folder in the settings. Blocks.

        Raises ApplianceError (NOT_FOUND) if they are not built.
        """
        folder = settings.ENVIRONMENT.client_packages
        with self._lock:
            try:
                paths = files(folder)
                state = tuple((str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in paths)
                if self._packages is None or state != self._state:
                    debian, archive = map(read, paths)
                    self._packages = Packages(debian, archive, unpacked_bytes(paths[1]))
                    self._state = state
            except (OSError, tarfile.TarError):  # the folder is being replaced
                raise ApplianceError(Code.NOT_FOUND, NOT_BUILT) from None
            return self._packages


packages = PackageCache()
