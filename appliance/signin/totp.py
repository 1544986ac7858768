"""Time-based one-time codes (RFC 6238) as authenticator apps compute them by default."""

from __future__ import annotations

import base64
import hmac
import secrets
import struct
from urllib.parse import quote

STEP_SECONDS = 30
DIGITS = 6
TOLERATED_STEPS = 1
"""A clock may be wrong by this number of steps in both directions."""
SECRET_BYTES = 20
ISSUER = "Busbar"


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


def code_at(secret: bytes, step: int) -> str:
    """Return the code of a time step. SHA-1 is what all apps support."""
    digest = hmac.digest(secret, struct.pack(">Q", step), "sha1")
    offset = digest[-1] & 0xF
    (number,) = struct.unpack_from(">I", digest, offset)
    return f"{(number & 0x7FFFFFFF) % 10**DIGITS:0{DIGITS}}"


def matching_step(secret: bytes, code: str, now: float, after: int) -> int | None:
    """Return the step later than `after` whose code this is, or None.

    `now` is Unix time. Compares with all steps that are tolerated, in constant time.
    """
    present = int(now) // STEP_SECONDS
    steps = range(present - TOLERATED_STEPS, present + TOLERATED_STEPS + 1)
    matches = [
        step
        for step in steps
        if hmac.compare_digest(code_at(secret, step).encode(), code.encode()) and step > after
    ]
    return matches[0] if matches else None


def base32(secret: bytes) -> str:
    return base64.b32encode(secret).decode().rstrip("=")


def uri(secret: bytes, username: str, host: str) -> str:
    """Return the address that authenticator apps read from a QR code."""
    label = quote(f"{ISSUER} {host}:{username}", safe=":@")
    return f"otpauth://totp/{label}?secret={base32(secret)}&issuer={quote(f'{ISSUER} {host}')}"
