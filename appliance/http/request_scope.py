"""Facts of a request in its ASGI scope."""

from __future__ import annotations

from typing import Any

from django.urls import Resolver404, ResolverMatch, resolve

from appliance.accounts.authentication import CONSOLE_COOKIE
from appliance.api.operation_id import operation_id
from appliance.api.refusals import Refusal
from appliance.api.request_cookie import cookie_of

Scope = dict[str, Any]
CREDENTIAL_HEADERS = frozenset({b"authorization", b"cookie", b"host", b"origin"})


def header_of(scope: Scope, wanted: bytes) -> str | None:
    """Return the first value of a header, or None. `wanted` is in lower case."""
    return next((v.decode("latin-1") for name, v in scope["headers"] if name == wanted), None)


def address_of(scope: Scope) -> str:
    """Return the address of the client; empty if it is unknown."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def token_text_of(scope: Scope) -> str:
    """Return the token in the Authorization header or in the console's cookie; empty if none."""
    if (authorization := header_of(scope, b"authorization")) is not None:
        scheme, _, token_text = authorization.strip().partition(" ")
        return token_text.strip() if scheme.lower() == "bearer" else ""
    return cookie_of(scope["headers"], CONSOLE_COOKIE)


def match_of(scope: Scope) -> ResolverMatch | None:
    """Return the route of a request, or None. It is looked up once, for Django's handler, too."""
    if "match" not in scope:
        try:
            scope["match"] = resolve(scope["path"])
        except Resolver404:
            scope["match"] = None
    found: ResolverMatch | None = scope["match"]
    return found


def read_scope(scope: Scope, path: str) -> Scope:
    """Return the scope of a GET request with the credentials of this request.

    A delayed response thus shows only what its caller may still view after the delay.
    """
    headers = [h for h in scope["headers"] if h[0] in CREDENTIAL_HEADERS]
    read = {"method": "GET", "path": path, "raw_path": path.encode(), "query_string": b""}
    return scope | read | {"headers": headers, "match": None}


def refusal_of(scope: Scope, code: str, actor: str = "") -> Refusal:
    """Return the refusal of a request that reached no view."""
    match = match_of(scope)
    action = operation_id(scope["method"], match.route) if match else ""
    return Refusal(actor=actor, address=address_of(scope)[:64], code=code, action=action[:100])
