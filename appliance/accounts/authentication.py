"""Authentication of REST and feed clients by API token, in a header or in the console's cookie."""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid
from collections.abc import Iterable

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, PermissionDenied
from rest_framework.request import Request

from appliance.accounts import recent_tokens, token_cache, token_networks, token_uses
from appliance.accounts.models import ApiToken, User
from appliance.accounts.permissions import enable_grant_cache, grants, limit_to_token
from appliance.accounts.second_factor_policy import is_marked_by_present_policy, mark_lacking
from appliance.api.request_cookie import cookie_in

TOKEN_PREFIX = "bb_"
TOKEN = re.compile(TOKEN_PREFIX + r"(?P<id>[0-9a-f]{32})\.(?P<secret>[A-Za-z0-9_-]+)")
CONSOLE_COOKIE = "__Host-busbar"
"""Name of the console's cookie. It holds an API token and is HttpOnly."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
FOREIGN_ORIGIN = "The Origin header does not match the console's own origin."


def hash_secret(secret: str) -> str:
    """Return the SHA-256 of a token secret or a password hash.

    A fast hash suffices: the one has 256 random bits, the other is the result of a slow hash.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def parse_token(token_text: str) -> tuple[uuid.UUID, str] | None:
    """Split the text of a token into its id and its secret, or return None if it is malformed.

    A token has one text only: each other one would have entries of its own in the caches of tokens.
    """
    if (found := TOKEN.fullmatch(token_text)) is None:
        return None
    return uuid.UUID(hex=found["id"]), found["secret"]


def is_valid(token: ApiToken) -> bool:
    """Return whether the token has not expired, and its user is active with the same password."""
    return (
        token.user.is_active
        and (token.expires_at is None or token.expires_at >= timezone.now())
        and hmac.compare_digest(token.password_sha256, hash_secret(token.user.password))
    )


def matches(token: ApiToken, secret: str) -> bool:
    """Return whether the token is valid and has this secret. Compares in constant time."""
    return is_valid(token) and hmac.compare_digest(token.secret_sha256, hash_secret(secret))


def authenticate_token(token_text: str, address: str) -> ApiToken | None:
    """Return the valid token with this text, or None. May read the database.

    The token's user is a copy for one request and holds its grants. Raises ApplianceError
    TOKEN_NETWORK if the token is not valid from the address of the client.
    """
    token = find_valid_token(token_text)
    if token is not None:
        token_networks.require(token.networks, address)
        token_uses.record(token.pk, address)
    return token


def find_valid_token(token_text: str) -> ApiToken | None:
    """Return the token with this text if it is valid from some address. May read the database."""
    token = _find_token(token_text)
    if token is None:
        recent_tokens.update(token_text, None)
    else:
        recent_tokens.update(token_text, str(token.user_id), token.networks)
    return token


def _find_token(token_text: str) -> ApiToken | None:
    token = token_cache.get(token_text)
    if token is not None and is_marked_by_present_policy(token.user):
        return token if is_valid(token) else None
    read_version = token_cache.version()
    token = authenticate_tokens([token_text]).get(token_text)
    if token is not None:
        grants(token.user)
        token_cache.put(token_text, token, read_version)
    return token


def authenticate_tokens(token_texts: Iterable[str]) -> dict[str, ApiToken]:
    """Return the valid tokens by their texts, with one query. Bypasses the token cache."""
    parsed = {text: parts for text in token_texts if (parts := parse_token(text))}
    rows = ApiToken.objects.select_related("user").in_bulk(
        [token_id for token_id, _ in parsed.values()]
    )
    for token in rows.values():
        enable_grant_cache(token.user)
        limit_to_token(token.user, token.scopes, token_id=token.pk, is_limited=token.is_limited)
    mark_lacking(token.user for token in rows.values())
    return {
        text: rows[token_id]
        for text, (token_id, secret) in parsed.items()
        if token_id in rows and matches(rows[token_id], secret)
    }


def request_user(request: Request) -> User:
    """Return the authenticated user. Raises NotAuthenticated behind public views."""
    if not isinstance(request.user, User):
        raise NotAuthenticated
    return request.user


class ApiTokenAuthentication(BaseAuthentication):
    """Authentication by `Authorization: Bearer <token>`."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        words = get_authorization_header(request).decode(errors="replace").split()
        if len(words) != 2 or words[0].lower() != "bearer":
            return None
        token = authenticate_token(words[1], request.META.get("REMOTE_ADDR", ""))
        if token is None:
            raise AuthenticationFailed
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def has_own_origin(request: HttpRequest) -> bool:
    """Return whether the Origin header is this appliance. Browsers send it with unsafe methods."""
    return request.headers.get("Origin") == f"https://{request.get_host()}"


class CookieAuthentication(BaseAuthentication):
    """Authentication by the console's cookie. Unsafe methods also need the console's Origin."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        token_text = cookie_in(request.META, CONSOLE_COOKIE)
        if not token_text or "Authorization" in request.headers:
            return None
        token = authenticate_token(token_text, request.META.get("REMOTE_ADDR", ""))
        if token is None:
            raise AuthenticationFailed
        if request.method not in SAFE_METHODS and not has_own_origin(request._request):
            raise PermissionDenied(FOREIGN_ORIGIN)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"
