"""Requests to answers, on the thread that calls: Django's synchronous path, whichever process it is in."""

from __future__ import annotations

from typing import IO, Any, NamedTuple

from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.base import BaseHandler
from django.http import HttpResponse
from django.urls import get_resolver

from appliance.activity.watch import Watching
from appliance.encoding import encoded
from appliance.errors import ApplianceError
from appliance.rest import Until, problem

PASSED = (
    "type",
    "method",
    "path",
    "raw_path",
    "query_string",
    "headers",
    "scheme",
    "client",
    "server",
    "root_path",
)
"""What an answer depends on, of an ASGI scope."""


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    until: Until | None = None
    """It may be better in a moment."""
    watching: Watching | None = None
    """It goes on."""


class Refused(Exception):
    """Carries an answer out of a transaction: what was changed before it was refused is changed back."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer


def refusal(error: ApplianceError) -> Answer:
    response = problem(error.code, error.detail, None)
    return Answer(
        response.status_code,
        [(b"content-type", b"application/problem+json")],
        encoded(response.data),
    )


class Answerer(BaseHandler):
    def __init__(self) -> None:
        super().__init__()
        self.load_middleware(is_async=False)
        assert (
            get_resolver().url_patterns
        )  # imports the views here: two first requests at once would each see half of them

    def decide(self, scope: dict[str, Any], body: IO[bytes]) -> Answer:
        """On the writer's thread. Raises Refused."""
        answer, _ = self._answered(
            scope, body
        )  # closed by nobody: Django would close the connection, and what was changed would be lost
        if answer.status >= 400:
            raise Refused(answer)
        return answer

    def answer(self, scope: dict[str, Any], body: IO[bytes]) -> Answer:
        """Blocks."""
        answer, response = self._answered(scope, body)
        response.close()
        return answer

    def _answered(self, scope: dict[str, Any], body: IO[bytes]) -> tuple[Answer, Any]:
        response: Any = self.get_response(ASGIRequest(scope, body))
        content = b"".join(response) if response.streaming else response.content
        until = getattr(response, "until", None) if response.status_code < 400 else None
        return Answer(
            response.status_code,
            headers_of(response, content),
            content,
            until,
            getattr(response, "watching", None),
        ), response


def headers_of(response: HttpResponse, content: bytes) -> list[tuple[bytes, bytes]]:
    """As ASGI wants them."""
    headers = [(k.encode("ascii").lower(), v.encode("latin-1")) for k, v in response.items()]
    headers += [
        (b"set-cookie", c.output(header="").strip().encode()) for c in response.cookies.values()
    ]
    if not response.has_header("Content-Length"):
        headers.append((b"content-length", b"%d" % len(content)))
    return headers


def passed(scope: dict[str, Any]) -> dict[str, Any]:
    return {name: scope[name] for name in PASSED if name in scope}
