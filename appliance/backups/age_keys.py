"""Keys of backups, in the format of age (https://age-encryption.org).

The appliance has only the public keys, in a file of its data folder: who controls the API or the
backup's destination can neither read backups nor choose who can (ADR 92).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyrage import IdentityError, RecipientError, x25519

from appliance.backups.errors import BackupError

RECIPIENTS = "backup-recipients"
PREFIX = "AGE-SECRET-KEY-"
HOW = "Make a key with: busbar-admin backup-key FILE"


def content_lines(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def read_recipients(folder: Path) -> list[x25519.Recipient]:
    """Return the public keys for backups of a data folder. Raises BackupError if there is none."""
    path = folder / RECIPIENTS
    lines = content_lines(path.read_text()) if path.exists() else []
    if not lines:
        raise BackupError(f"There is no key for backups yet. {HOW}")
    try:
        return [x25519.Recipient.from_str(line) for line in lines]
    except RecipientError as error:
        raise BackupError(f"{path} has a line that is no public key of age: {error}.") from None


def read_identities(path: Path) -> list[x25519.Identity]:
    """Return the private keys of a file. Raises BackupError."""
    try:
        lines = content_lines(path.read_text())
        identities: Sequence[x25519.Identity] = [x25519.Identity.from_str(line) for line in lines]
    except (OSError, UnicodeError) as error:
        raise BackupError(f"The key file {path} cannot be read: {error}.") from None
    except IdentityError:
        raise BackupError(f"{path} is no key file: its lines begin with {PREFIX}.") from None
    if not identities:
        raise BackupError(f"{path} has no key.")
    return list(identities)
