"""Device cookie: marks a client that has signed in to an account before.

It permits nothing. It only keeps failed logins of strangers from delaying this client
(see login_limits.py). The value is `<id>.<digest of the username>.<signature>`.
"""

from __future__ import annotations

import hashlib
import secrets
from http.cookies import CookieError, SimpleCookie

from django.core.signing import BadSignature, Signer

DEVICE_COOKIE = "__Host-busbar-device"
LIFETIME_SECONDS = 365 * 86400
SEPARATOR = "."


def _signer() -> Signer:
    return Signer(sep=SEPARATOR, salt="busbar.device")


def _digest(username: str) -> str:
    return hashlib.sha256(username.encode()).hexdigest()[:32]


def device_id(cookie_header: str, username: str) -> str | None:
    """Return the id in a valid device cookie of this account, or None."""
    try:
        morsel = SimpleCookie(cookie_header).get(DEVICE_COOKIE)
        identifier, _, digest = _signer().unsign(morsel.value if morsel else "").partition(".")
    except (BadSignature, CookieError):
        return None
    return identifier if digest == _digest(username) else None


def set_cookie_header(username: str) -> str:
    """Return a Set-Cookie header with a new device cookie for this account."""
    value = _signer().sign(f"{secrets.token_hex(16)}{SEPARATOR}{_digest(username)}")
    return (
        f"{DEVICE_COOKIE}={value}; Max-Age={LIFETIME_SECONDS}; Path=/; Secure; HttpOnly; "
        "SameSite=Strict"
    )
