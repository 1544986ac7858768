"""Credentials of the node on disk: identity, CA, keys and certificates, replaced as one unit.

The link `current` names the folder of the credentials in force. A replacement is written to a new
folder and put in force by one rename, so a crash leaves the old or the new credentials, never a
mixture (ADR 48).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from nodes.errors import NodeError
from nodes.identity import Identity

CURRENT = "current"
PREFIX = "credentials-"


@dataclass(frozen=True)
class Credentials:
    identity: Identity
    ca_pem: str
    """Certificates of the CAs that the node trusts."""
    agent_key: bytes
    agent_pem: str
    launcher_key: bytes
    launcher_pem: str

    @property
    def agent_certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.agent_pem.encode())

    @property
    def authorities(self) -> list[bytes]:
        """SHA-256 of the trusted CAs' certificates."""
        certificates = x509.load_pem_x509_certificates(self.ca_pem.encode())
        return [c.fingerprint(hashes.SHA256()) for c in certificates]

    def renewal_is_due(self) -> bool:
        """Return whether two thirds of the agent certificate's lifetime have passed."""
        begin = self.agent_certificate.not_valid_before_utc
        end = self.agent_certificate.not_valid_after_utc
        return datetime.now(timezone.utc) > begin + (end - begin) * 2 / 3

    def are_expired(self) -> bool:
        return datetime.now(timezone.utc) > self.agent_certificate.not_valid_after_utc

    def check(self) -> None:
        """Raise ValueError if certificates or keys cannot be read: the agent could not use them."""
        for pem in (self.ca_pem, self.agent_pem, self.launcher_pem):
            x509.load_pem_x509_certificates(pem.encode())
        for key in (self.agent_key, self.launcher_key):
            serialization.load_pem_private_key(key, None)

    def files(self) -> Mapping[str, bytes]:
        return {
            "identity.json": json.dumps(asdict(self.identity)).encode(),
            "ca.pem": self.ca_pem.encode(),
            "agent.key": self.agent_key,
            "agent.pem": self.agent_pem.encode(),
            "launcher.key": self.launcher_key,
            "launcher.pem": self.launcher_pem.encode(),
        }


def load_credentials(folder: Path) -> Credentials | None:
    """Return the credentials in force, or None if the machine is not enrolled.

    Raises NodeError if the files are incomplete or invalid.
    """
    while (version := version_in_force(folder)) is not None:
        path = folder / version
        try:
            return read_credentials(path)
        except (OSError, ValueError, TypeError) as error:
            if version == version_in_force(folder):
                raise NodeError(
                    f"The credentials in {path} are damaged ({error}); enrol the machine again."
                ) from error
    return None


def read_credentials(path: Path) -> Credentials:
    """Raises OSError, ValueError or TypeError for files without the content of credentials."""
    found = Credentials(
        Identity(**json.loads((path / "identity.json").read_text())),
        (path / "ca.pem").read_text(),
        (path / "agent.key").read_bytes(),
        (path / "agent.pem").read_text(),
        (path / "launcher.key").read_bytes(),
        (path / "launcher.pem").read_text(),
    )
    found.check()
    return found


def version_in_force(folder: Path) -> str | None:
    """Return the name of the credentials in force; it changes with each replacement."""
    try:
        return os.readlink(folder / CURRENT)
    except OSError:
        return None


def store_credentials(folder: Path, credentials: Credentials) -> None:
    """Replace the credentials in force and delete the previous ones.

    Everything is on disk before the rename that puts it in force.
    """
    with locked(folder):
        replace_credentials(folder, credentials)


def store_renewed(folder: Path, credentials: Credentials, version: str | None) -> None:
    """Replace the credentials of this version.

    Raises NodeError if others are in force: an enrolment must not be undone by a renewal that
    began before it.
    """
    with locked(folder):
        if version_in_force(folder) != version:
            raise NodeError("the credentials were replaced during the renewal.")
        replace_credentials(folder, credentials)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / "credentials.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_credentials(folder: Path, credentials: Credentials) -> None:
    new = folder / f"{PREFIX}{secrets.token_hex(8)}"
    new.mkdir(mode=0o700)
    for name, content in credentials.files().items():
        write_durably(new / name, content)
    sync_folder(new)
    link = folder / f"{CURRENT}.new"
    link.unlink(missing_ok=True)
    link.symlink_to(new.name)
    link.replace(folder / CURRENT)
    sync_folder(folder)
    for other in folder.glob(f"{PREFIX}*"):
        if other != new:
            shutil.rmtree(other, ignore_errors=True)


def write_durably(path: Path, content: bytes) -> None:
    """Create a file with mode 0600 and wait until it is on disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
