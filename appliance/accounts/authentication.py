"""Bearer tokens of the REST API."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from collections.abc import Iterable

from django.http import HttpRequest
from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from appliance.accounts import identities
from appliance.accounts.models import ApiToken, User
from appliance.accounts.permissions import bindings_of

PREFIX = "bb_"
COOKIE = "__Host-busbar"
"""Of the console: an API token that scripts in the page cannot read."""
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def hash_secret(secret: str) -> str:
    """A plain hash suffices for 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def parts_of(presented: str) -> tuple[uuid.UUID, str] | None:
    """The token's id and its secret."""
    head, _, secret = presented.removeprefix(PREFIX).partition(".")
    try:
        return uuid.UUID(hex=head), secret
    except ValueError:
        return None


def live(token: ApiToken) -> bool:
    return token.user.is_active and (token.expires_at is None or token.expires_at >= timezone.now())


def good(token: ApiToken, secret: str) -> bool:
    return live(token) and hmac.compare_digest(token.secret_sha256, hash_secret(secret))


def token_for(presented: str) -> ApiToken | None:
    """The live token behind the text, or None. Its user is the request's own copy, with the roles."""
    token = identities.known(presented)
    if token is not None:
        return token if live(token) else None
    read_at = identities.changes()
    token = tokens_for([presented]).get(presented)
    if token is not None:
        bindings_of(token.user)
        identities.keep(presented, token, read_at)
    return token


def tokens_for(presented: Iterable[str]) -> dict[str, ApiToken]:
    """Of these texts the live tokens, in one read."""
    asked = {text: parts for text in presented if (parts := parts_of(text))}
    rows = ApiToken.objects.select_related("user").in_bulk(
        [token_id for token_id, _ in asked.values()]
    )
    for token in rows.values():
        token.user.__dict__["_of_request"] = True
    return {
        text: rows[token_id]
        for text, (token_id, secret) in asked.items()
        if token_id in rows and good(rows[token_id], secret)
    }


class ApiTokenAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        words = get_authorization_header(request).decode(errors="replace").split()
        if len(words) != 2 or words[0].lower() != "bearer":
            return None
        token = token_for(words[1])
        if token is None:
            raise AuthenticationFailed
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def own_origin(request: HttpRequest) -> bool:
    """Whether our own page asks: browsers state the origin of every request that changes something."""
    return request.headers.get("Origin") == f"https://{request.get_host()}"


class CookieAuthentication(BaseAuthentication):
    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        presented = request.COOKIES.get(COOKIE)
        if not presented or "Authorization" in request.headers:
            return None
        token = token_for(presented)
        if token is None:
            raise AuthenticationFailed
        if request.method not in SAFE_METHODS and not own_origin(request._request):
            raise PermissionDenied("The request did not come from the console's own page.")
        return token.user, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class CookieScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "appliance.accounts.authentication.CookieAuthentication"
    name = "cookie"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": COOKIE}


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular has no types for it
    target_class = "appliance.accounts.authentication.ApiTokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}
