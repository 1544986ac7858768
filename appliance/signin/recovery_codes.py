"""Recovery codes: each replaces one code of an authenticator app, once."""

from __future__ import annotations

import base64
import hashlib
import secrets

COUNT = 10
CODE_BYTES = 10
"""80 random bits: a fast hash suffices to store them."""


def new_codes() -> list[str]:
    """Return new codes such as `abcd-efgh-ijkl-mnop`."""
    return [
        grouped(base64.b32encode(secrets.token_bytes(CODE_BYTES)).decode().lower())
        for _ in range(COUNT)
    ]


def grouped(code: str) -> str:
    return "-".join(code[i : i + 4] for i in range(0, len(code), 4))


def digest(code: str) -> str:
    """Return the digest of a code, however it is grouped, in any case."""
    return hashlib.sha256(normalized(code).encode()).hexdigest()


def normalized(code: str) -> str:
    return "".join(code.split()).replace("-", "").lower()
