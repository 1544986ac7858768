"""Response header that tells clients which CAs the appliance uses at present."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from django.conf import settings

AUTHORITIES_HEADER = "Busbar-Authorities"


def authorities_digest() -> str:
    """Return the SHA-256 of the certificates in `ca.pem`; empty before the first start."""
    path = settings.DATA_DIR / "ca.pem"
    try:
        state = path.stat()
    except FileNotFoundError:
        return ""
    return digest_of_file(str(path), state.st_ino, state.st_mtime_ns)


@lru_cache(maxsize=1)
def digest_of_file(path: str, _inode: int, _modified: int) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
