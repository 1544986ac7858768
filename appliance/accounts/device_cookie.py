"""Device cookie: marks a client that has signed in to an account before.

It permits nothing. It only keeps failed logins of strangers from delaying this client
(see login_limits.py). The value is `<id>.<digest of the username>.<signature>`.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

from django.core.signing import BadSignature, Signer

from appliance.api.request_cookie import cookie_of

DEVICE_COOKIE = "__Host-busbar-device"
LIFETIME_SECONDS = 365 * 86400
SEPARATOR = "."


def _signer() -> Signer:
    return Signer(sep=SEPARATOR, salt="busbar.device")


def _digest(username: str) -> str:
    return hashlib.sha256(username.encode()).hexdigest()[:32]


def device_id(headers: Iterable[tuple[bytes, bytes]], username: str) -> str | None:
    """Return the id in a valid device cookie of this account, or None."""
    try:
        signed = _signer().unsign(cookie_of(headers, DEVICE_COOKIE))
    except BadSignature:
        return None
    identifier, _, digest = signed.partition(".")
    return identifier if digest == _digest(username) else None


def set_cookie_header(username: str) -> str:
    """Return a Set-Cookie header with a new device cookie for this account."""
    value = _signer().sign(f"{secrets.token_hex(16)}{SEPARATOR}{_digest(username)}")
    return (
        f"{DEVICE_COOKIE}={value}; Max-Age={LIFETIME_SECONDS}; Path=/; Secure; HttpOnly; "
        "SameSite=Strict"
    )
