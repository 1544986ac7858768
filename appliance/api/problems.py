"""Problem responses (RFC 9457): every error of the REST API as application/problem+json."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import IntegrityError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.api.database_refusals import refusal_of
from appliance.api.errors import STATUS, ApplianceError, Code, problem_type
from appliance.db.deleted_rows import is_missing_row

log = logging.getLogger(__name__)

NOT_FOUND = "The object does not exist, or you have no permission to see it."
IN_USE = "Another request uses the object meanwhile. Nothing was changed; try again."
SIGN_IN = "Sign in with `busbar login`, or send a token in the Authorization header."
INVALID_TOKEN = (
    "The token is not valid: it is wrong, or it has expired or was revoked. Sign in with `busbar "
    "login`, or use another token."
)


def problem(
    code: Code,
    detail: str,
    request: Request | None,
    errors: list[dict[str, str]] | None = None,
    **fields: object,
) -> Response:
    """Return the problem response of an error. `fields` become members of the problem."""
    body: dict[str, object] = {
        "type": problem_type(code),
        "title": code.replace("_", " "),
        "status": STATUS[code],
        "code": str(code),
        "detail": detail,
        **fields,
    }
    if request is not None:
        body["instance"] = request.path
    if errors:
        body["errors"] = errors
    response = Response(body, status=STATUS[code], content_type="application/problem+json")
    if code == Code.BUSY:
        response["Retry-After"] = "1"
    elif "retry_after_seconds" in fields:
        response["Retry-After"] = str(fields["retry_after_seconds"])
    if code == Code.UNAUTHENTICATED:
        response["WWW-Authenticate"] = "Bearer"
    return response


def field_errors(detail: Any, pointer: str = "") -> Iterable[dict[str, str]]:
    """Yield one entry for each message of a DRF validation error, with its JSON pointer."""
    if isinstance(detail, dict):
        for key, value in detail.items():
            yield from field_errors(value, f"{pointer}/{key}")
    elif isinstance(detail, list):
        for value in detail:
            yield from field_errors(value, pointer)
    else:
        yield {
            "pointer": pointer,
            "code": str(getattr(detail, "code", "invalid")),
            "message": str(detail),
        }


def refusal_of_missing_row(error: Exception, method: str | None) -> tuple[Code, str]:
    """Return code and detail of a request that failed because a row does not exist.

    It is logged as an error, because a fault of the appliance looks the same.
    """
    log.error("api: an object was deleted during the request", exc_info=error)
    if method == "DELETE" and isinstance(error, IntegrityError):
        return Code.CONFLICT, IN_USE
    return Code.NOT_FOUND, NOT_FOUND


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """Convert an exception of a view to a problem response (DRF's exception handler).

    Return None for unexpected exceptions: Django then responds with 500.
    """
    request = context.get("request")
    if refused := error if isinstance(error, ApplianceError) else refusal_of(error):
        return problem(refused.code, refused.detail, request, None, **refused.fields)
    if isinstance(error, exceptions.ValidationError):
        return problem(
            Code.INVALID,
            "Validation failed; see errors.",
            request,
            list(field_errors(error.detail)),
        )
    if isinstance(error, DjangoValidationError):
        return problem(Code.INVALID, " ".join(error.messages), request)
    if isinstance(error, exceptions.NotAuthenticated):
        return problem(Code.UNAUTHENTICATED, SIGN_IN, request)
    if isinstance(error, exceptions.AuthenticationFailed):
        return problem(Code.UNAUTHENTICATED, INVALID_TOKEN, request)
    if isinstance(error, exceptions.PermissionDenied):
        return problem(Code.DENIED, str(error.detail), request)
    if isinstance(error, Http404 | exceptions.NotFound):
        return problem(Code.NOT_FOUND, NOT_FOUND, request)
    if is_missing_row(error):
        return problem(*refusal_of_missing_row(error, request.method if request else ""), request)
    if isinstance(error, exceptions.APIException):
        response = problem(Code.INVALID, str(error.detail), request)
        response.status_code = error.status_code
        response.data["status"] = error.status_code
        return response
    return None
