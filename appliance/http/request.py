"""Requests of ASGI applications: facts of the scope, the path of execution, and the body."""

from __future__ import annotations

import asyncio
import enum
from typing import IO, Any

from django.urls import Resolver404, ResolverMatch, resolve

from appliance.accounts.authentication import CONSOLE_COOKIE
from appliance.api.operation_id import operation_id
from appliance.api.refusals import Refusal
from appliance.api.request_cookie import cookie_of
from appliance.api.views import ApplianceView

Scope = dict[str, Any]
CREDENTIAL_HEADERS = frozenset({b"authorization", b"cookie", b"host", b"origin"})
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
MAX_BODY_BYTES, MAX_ANONYMOUS_BODY_BYTES = 4 << 20, 64 << 10
BODY_SECONDS = 30.0


class Execution(enum.Enum):
    """Path of execution of a request. `execution_of` chooses it, and LoginGate DIRECTORY_LOGIN."""

    READ = "read"
    """The HTTP server process handles the request on a read thread."""
    WRITE = "write"
    """The controller handles it on a request thread; services submit their writes to the writer
    thread and wait for the commit."""
    INLINE_WRITE = "inline_write"
    """The controller handles the whole request on the writer thread, in the transaction of the
    current batch. Views that do nothing slow declare it (`ApplianceView.inline_write`): threads
    that take turns wait longer for the GIL than they work."""
    RENEWAL = "renewal"
    """As WRITE, on threads of its own (`ApplianceView.renewal_methods`)."""
    LOGIN = "login"
    """As WRITE, on threads of its own (`ApplianceView.login_methods`)."""
    PROVIDER = "provider"
    """As WRITE, on threads of its own (`ApplianceView.provider_methods`)."""
    DIRECTORY_LOGIN = "directory_login"
    """A LOGIN whose password the directory checks, on threads of its own (login_gate.py)."""


class BodyTooLargeError(Exception):
    """The request body exceeds its limit."""


class BodyTimeoutError(Exception):
    """The request body did not arrive within BODY_SECONDS."""


class ClientDisconnectedError(Exception):
    """The client closed the connection before the end of the request body."""


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


def execution_of(scope: Scope) -> Execution:
    method = scope["method"]
    view = None if method in SAFE_METHODS else view_of(scope)
    if view is None:
        return Execution.READ
    if method in view.read_only_methods and not scope.get("query_string"):
        return Execution.READ  # with a query it may be a dry run, whose parameter may be encoded
    if method in view.login_methods:
        return Execution.LOGIN
    if method in view.provider_methods:
        return Execution.PROVIDER
    if method in view.renewal_methods:
        return Execution.RENEWAL
    return Execution.INLINE_WRITE if view.inline_write else Execution.WRITE


def requires_token(scope: Scope) -> bool:
    """Return whether the path has a view that rejects the method without a valid token."""
    view = view_of(scope)
    return view is not None and view.privileges.get(scope["method"]) != "public"


def view_of(scope: Scope) -> type[ApplianceView] | None:
    """Return the view class of a request, or None for paths without an ApplianceView."""
    match = match_of(scope)
    found = getattr(match.func, "cls", None) if match else None
    return found if found is not None and issubclass(found, ApplianceView) else None


async def read_body(receive: Any, into: IO[bytes], max_bytes: int = MAX_BODY_BYTES) -> None:
    """Write the request body to `into` and rewind it.

    Raises BodyTooLargeError, ClientDisconnectedError or BodyTimeoutError.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            await _read(receive, into, max_bytes)
    except TimeoutError:
        raise BodyTimeoutError from None
    into.seek(0)


async def _read(receive: Any, into: IO[bytes], max_bytes: int) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        size += len(message.get("body", b""))
        if size > max_bytes:
            raise BodyTooLargeError
        into.write(message.get("body", b""))
        more = message.get("more_body", False)
