"""Texts, headers and errors of one operation of the OpenAPI document."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from rest_framework.views import APIView

from appliance.api.description.error_codes import codes_of
from appliance.api.error_descriptions import DESCRIPTIONS, problem_example
from appliance.api.errors import STATUS, Code, problem_type
from appliance.api.views import UNSAFE_METHODS, ApplianceView, supports_dry_run

Json = dict[str, Any]
SENTENCE = re.compile(r"(.+?[.:])(?=\s|$)\s*", re.DOTALL)
DONE = {
    "200": "The result.",
    "201": "The new object.",
    "202": "Accepted. The work goes on after the response.",
    "204": "Done. The response has no body.",
}
UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"
IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "schema": {"type": "string"},
    "description": "`ETag` of the object as you read it, or `*` for each version. If the object "
    "has changed since, or with `*` does not exist, the request fails with `stale`.",
    "example": '"3"',
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "maxLength": 200},
    "description": "A key that you choose. A repeated request with it returns the first response "
    "and has no second effect.",
    "example": "7c1f6b1e-nightly-train",
}
HEADERS: dict[str, Json] = {
    "ETag": {
        "description": "Version of the object, for `If-Match`.",
        "schema": {"type": "string"},
        "example": '"3"',
    },
    "Location": {
        "description": "Path of the object that the response shows.",
        "schema": {"type": "string"},
        "example": "/api/v1/pools/0192f0c1-a2b3-7c4d-8e5f-60718293a4b5",
    },
    "Busbar-Request": {
        "description": "Id of the request, as in its audit records.",
        "schema": {"type": "string", "format": "uuid"},
        "example": "0192f0c1-b7de-7a11-9c02-5f4e3d2c1b0a",
    },
    "Busbar-Authorities": {
        "description": "SHA-256 of the CA certificates that `GET /api/v1/ca` returns.",
        "schema": {"type": "string"},
        "example": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    },
    "Retry-After": {
        "description": "Seconds after which the request may be repeated.",
        "schema": {"type": "integer"},
        "example": 1,
    },
    "WWW-Authenticate": {
        "description": "`Bearer`.",
        "schema": {"type": "string"},
        "example": "Bearer",
    },
}
"""Components of the document."""


RESPONSES: dict[str, Json] = {}
"""Components of the document: responses with errors, one for each set of codes."""


def documentation_of(view: APIView, method: str) -> str:
    """Return the docstring of the method, or of the view itself; never that of a base class."""
    handler = getattr(view, method.lower(), None)
    return inspect.getdoc(handler) or inspect.cleandoc(type(view).__dict__.get("__doc__") or "")


def summary_of(text: str) -> str:
    """Return the first sentence without its final character."""
    match = SENTENCE.match(text)
    return " ".join((match[1] if match else text).split()).rstrip(".:")


def description_of(view: APIView, method: str) -> str:
    """Return the rest of the docstring, and what the view declares about permissions."""
    text = documentation_of(view, method)
    first = SENTENCE.match(text)
    rest = text[first.end() :].strip() if first and first[1].endswith(".") else text
    if not isinstance(view, ApplianceView):
        return rest
    parts = [rest, permission_of(view, method)]
    if method in UNSAFE_METHODS and supports_dry_run(view, method):
        parts.append("With `dry_run=true` nothing changes.")
    return "\n\n".join(part for part in parts if part)


def permission_of(view: ApplianceView, method: str) -> str:
    privilege = view.privileges.get(method, "")
    if privilege == "public":
        return "Needs no token."
    if privilege == "account.self":
        return "Needs the token of any user."
    where = (
        ", which a role may also give at the object or above it in the inventory"
        if method in view.inventory_methods
        else ""
    )
    return f"Needs the privilege `{privilege}`{where}."


def request_headers(view: ApplianceView, method: str) -> list[Json]:
    found = []
    if method in view.version_methods:
        found.append(IF_MATCH)
    if method in view.idempotent_methods:
        found.append(IDEMPOTENCY_KEY)
    return found


def response_headers(view: ApplianceView, method: str, status: str) -> Json:
    names = ["Busbar-Authorities"]
    if method in UNSAFE_METHODS:
        names.append("Busbar-Request")
    if status in ("201", "202") and view.location_of(method) is not None:
        names.append("Location")
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def error_responses(view: ApplianceView, method: str, path: str) -> dict[str, Json]:
    """Return a response for each error status, with its codes and an example."""
    by_status: dict[str, list[Code]] = {}
    for code in codes_of(view, method, path):
        by_status.setdefault(str(STATUS[code]), []).append(code)
    names = {status: component_of(codes) for status, codes in sorted(by_status.items())}
    if method in UNSAFE_METHODS:
        names["415"] = UNSUPPORTED_MEDIA_TYPE
    return {s: {"$ref": f"#/components/responses/{name}"} for s, name in names.items()}


def component_of(codes: Iterable[Code]) -> str:
    """Return the name of the response with these codes, and add it to RESPONSES."""
    name = "_".join("".join(w.title() for w in code.split("_")) for code in codes)
    RESPONSES[name] = problem_response(codes)
    return name


def problem_response(
    codes: Iterable[Code], description: str | None = None, status: int | None = None
) -> Json:
    lines = [f"[`{code}`]({problem_type(code)}): {DESCRIPTIONS[code].meaning}" for code in codes]
    examples = {str(code): {"value": problem_example(code, status)} for code in codes}
    response: Json = {
        "description": description or "\n\n".join(lines),
        "content": {
            "application/problem+json": {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "examples": examples,
            }
        },
    }
    headers = [
        *(["WWW-Authenticate"] if Code.UNAUTHENTICATED in codes else []),
        *(["Retry-After"] if {Code.BUSY, Code.TOO_MANY_ATTEMPTS} & set(codes) else []),
    ]
    if headers:
        response["headers"] = {h: {"$ref": f"#/components/headers/{h}"} for h in headers}
    return response


RESPONSES[UNSUPPORTED_MEDIA_TYPE] = problem_response(
    [Code.INVALID], "The body is not JSON: its `Content-Type` must be `application/json`.", 415
)
