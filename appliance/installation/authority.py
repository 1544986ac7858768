"""The CA that clients pin when they install: the one that issued the server's certificate."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from django.conf import settings


class PinnedAuthority(NamedTuple):
    pem: str
    der: bytes
    """Its SHA-256 is the fingerprint, so `sha256sum` can compare it."""
    sha256: str


def pinned_authority() -> PinnedAuthority:
    """Return the first CA of `ca.pem`: during a rotation it is the one that issues."""
    certificate = x509.load_pem_x509_certificates((settings.DATA_DIR / "ca.pem").read_bytes())[0]
    der = certificate.public_bytes(Encoding.DER)
    pem = certificate.public_bytes(Encoding.PEM).decode()
    return PinnedAuthority(pem, der, hashlib.sha256(der).hexdigest())
