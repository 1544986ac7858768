"""Django's synchronous request handler for ASGI scopes, on the calling thread.

The HTTP server process runs it for safe methods, the controller for all others.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.base import BaseHandler
from django.db import transaction
from django.http import HttpResponse
from django.urls import ResolverMatch, get_resolver

from appliance.activity.watch import WatchStream
from appliance.api.encoding import encode_json
from appliance.api.errors import ApplianceError
from appliance.api.problems import problem
from appliance.api.refusals import Refusal
from appliance.api.wait import Wait

Headers = list[tuple[bytes, bytes]]
PROBLEM_TYPE = b"application/problem+json"


@dataclass(frozen=True)
class Response:
    status: int
    headers: Headers
    body: bytes
    wait: Wait | None = None
    """The response is delayed until the wait is over."""
    watch_stream: WatchStream | None = field(default=None, compare=False)
    """The response is an event stream."""
    refusals: Sequence[Refusal] = field(default=(), compare=False)
    """The request, or operations in it, were refused. The process that responds notes them."""


def problem_of(error: ApplianceError) -> Response:
    response = problem(error.code, error.detail, None, None, **error.fields)
    headers = [
        (name.lower().encode(), response[name].encode())
        for name in ("Retry-After", "WWW-Authenticate")
        if response.has_header(name)
    ]
    headers.append((b"content-type", PROBLEM_TYPE))  # DRF sets it when it renders
    return Response(response.status_code, headers, encode_json(response.data))


class SyncHandler(BaseHandler):
    def __init__(self) -> None:
        super().__init__()
        self.load_middleware(is_async=False)
        # Import all views now: concurrent first requests would see partly initialized modules.
        assert get_resolver().url_patterns

    def resolve_request(self, request: Any) -> ResolverMatch:
        """Use the route that `match_of` has found, if it was asked."""
        if (match := request.scope.get("match")) is None:
            return super().resolve_request(request)
        request.resolver_match = match
        found: ResolverMatch = match
        return found

    def respond(self, scope: dict[str, Any], body: IO[bytes]) -> Response:
        """Handle a request. Blocks; reads the database."""
        response, django_response = self._respond(scope, body)
        django_response.close()
        return response

    def respond_in_transaction(self, scope: dict[str, Any], body: bytes) -> Response:
        """Handle a request in the open transaction and mark it for rollback after an error.

        Does not close Django's response: that would close the connection, and Django would then
        silently discard the transaction. Takes bytes, because Django closes the stream of a body
        and the writer repeats a rejected request alone.
        """
        response, _ = self._respond(scope, io.BytesIO(body))
        if response.status >= 400:
            transaction.set_rollback(True)
        return response

    def _respond(self, scope: dict[str, Any], body: IO[bytes]) -> tuple[Response, HttpResponse]:
        response: Any = self.get_response(ASGIRequest(scope, body))
        content = b"".join(response) if response.streaming else response.content
        return Response(
            response.status_code,
            headers_of(response, content),
            content,
            getattr(response, "wait", None) if response.status_code < 400 else None,
            getattr(response, "watch_stream", None),
            getattr(response, "refusals", ()),
        ), response


def headers_of(response: HttpResponse, content: bytes) -> Headers:
    """Return the headers in the form of ASGI, with a content length."""
    headers = [(k.encode("ascii").lower(), v.encode("latin-1")) for k, v in response.items()]
    headers += [
        (b"set-cookie", c.output(header="").strip().encode()) for c in response.cookies.values()
    ]
    if not response.has_header("Content-Length"):
        headers.append((b"content-length", b"%d" % len(content)))
    return headers


async def send_response(response: Response, send: Any) -> None:
    headers = response.headers
    if not any(name == b"content-length" for name, _ in headers):
        headers = [*headers, (b"content-length", b"%d" % len(response.body))]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
