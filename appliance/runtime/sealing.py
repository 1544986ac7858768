"""Encryption of secrets in rows, so that a copy of the database does not contain them.

The key is derived from the appliance's secret key, a file of the data folder. Appliances that share
a database need the same file.
"""

from __future__ import annotations

import base64
import secrets
from enum import Enum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

NONCE_BYTES = 12


class UnreadableSecretError(Exception):
    """A secret was sealed with another secret key, for another owner, or is damaged."""


class Purpose(Enum):
    """Kinds of secrets. Each has a key of its own."""

    PASSKEY = b"busbar passkey challenge"
    RESPONSE = b"busbar stored response"
    SECOND_FACTOR = b"busbar second factor"
    SETTING = b"busbar setting"
    WEBHOOK = b"busbar webhook"


def _cipher(purpose: Purpose) -> AESGCM:
    derive = HKDF(hashes.SHA256(), 32, None, purpose.value)
    return AESGCM(derive.derive(settings.SECRET_KEY.encode()))


def seal(secret: bytes, purpose: Purpose, owner: bytes) -> str:
    """Return the encrypted secret as text. It can be opened for this owner only.

    The owner is the id of a user or alarm definition, the name of a setting, or a user with an
    idempotency key.
    """
    nonce = secrets.token_bytes(NONCE_BYTES)
    sealed = _cipher(purpose).encrypt(nonce, secret, owner)
    return base64.b64encode(nonce + sealed).decode()


def unseal(text: str, purpose: Purpose, owner: bytes) -> bytes:
    """Return the secret. Raises UnreadableSecretError."""
    try:
        content = base64.b64decode(text)
        return _cipher(purpose).decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], owner)
    except (InvalidTag, ValueError):
        raise UnreadableSecretError from None
