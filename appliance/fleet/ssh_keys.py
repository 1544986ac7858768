"""Host keys and private keys of SSH. Needs no Django settings."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.api.errors import ApplianceError, Code

# paramiko is imported inside functions: its 15 MB are needed only while a machine is enrolled.
if TYPE_CHECKING:
    import paramiko


@dataclass(frozen=True)
class HostKey:
    key_type: str
    sha256: str
    """Fingerprint as OpenSSH prints it, without the prefix `SHA256:` and without padding."""


def fingerprint(key: paramiko.PKey) -> HostKey:
    return HostKey(
        key.get_name(),
        base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("="),
    )


def parse_private_key(text: str, passphrase: str) -> paramiko.PKey:
    """Return a private key in OpenSSH or PEM format.

    Raises ApplianceError with SIGN_IN_REFUSED for another format or a wrong passphrase.
    """
    import paramiko

    for key_class in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        with contextlib.suppress(paramiko.SSHException, ValueError, IndexError, TypeError):
            key: paramiko.PKey = key_class.from_private_key(
                io.StringIO(text), password=passphrase or None
            )
            return key
    raise ApplianceError(
        Code.SIGN_IN_REFUSED,
        "The private key cannot be read: it must be in OpenSSH or PEM format,"
        " and the passphrase must match.",
    )
