"""Bulk requests: several operations in one request, optionally in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, ClassVar

import orjson
from django.http import Http404, HttpRequest, QueryDict
from django.http.response import HttpResponseBase
from django.urls import ResolverMatch, resolve
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import idempotent, key_of
from appliance.accounts.permissions import digest_of_privileges
from appliance.api.errors import ApplianceError, Code
from appliance.api.fields import StrictBooleanField
from appliance.api.refusals import Refusal
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import UNSAFE_METHODS, ApplianceView, supports_dry_run
from appliance.db.writer import write_transaction

MAX_OPERATIONS = 100
MAX_RESULT_BYTES = 4 << 20
"""Of all results. Operations beyond it are not run."""
ROOT = "/api/v1/"
NOT_RUN = {
    "status": 413,
    "body": {
        "code": str(Code.INVALID),
        "detail": "Not run, because the results are too long. Send fewer operations, or read"
        " smaller pages with `limit`.",
    },
}
FORWARDED_META = (
    "HTTP_AUTHORIZATION",
    "HTTP_COOKIE",
    "HTTP_HOST",
    "HTTP_ORIGIN",
    "SERVER_NAME",
    "SERVER_PORT",
    "REMOTE_ADDR",
    "wsgi.url_scheme",
)


class OperationSerializer(RequestSerializer[dict[str, Any]]):
    method = serializers.ChoiceField(("GET", *UNSAFE_METHODS))
    path = serializers.RegexField(
        r"^[a-z][!-~]{0,500}$",
        help_text="The path below /api/v1/ with its query, such as `nodes/ID/cordon`.",
    )
    body = serializers.JSONField(
        required=False, allow_null=True, help_text="The request body of the operation."
    )


class BulkRequestSerializer(RequestSerializer[dict[str, Any]]):
    operations = serializers.ListField(
        child=OperationSerializer(), min_length=1, max_length=MAX_OPERATIONS
    )
    atomic = StrictBooleanField(
        default=False,
        help_text=(
            "Whether all operations run in one transaction. If one fails, all are rolled back"
            " and the response is a conflict. Reads are not permitted in it."
        ),
    )


class ResultSerializer(serializers.Serializer[dict[str, Any]]):
    status = serializers.IntegerField()
    body = serializers.JSONField(
        allow_null=True, help_text="The response body of the operation, or its problem."
    )


class BulkResponseSerializer(serializers.Serializer[dict[str, Any]]):
    results = ResultSerializer(many=True, help_text="The results in the order of the operations.")


def build_request(
    outer: Request, operation: dict[str, Any], path: str, query: str, key: str
) -> HttpRequest:
    """Return the request of one operation with the credentials of the bulk request."""
    request, source = HttpRequest(), outer._request
    request.method, request.path, request.path_info = operation["method"], path, path
    request.META = {name: source.META[name] for name in FORWARDED_META if name in source.META}
    request.META |= {"CONTENT_TYPE": "application/json", "QUERY_STRING": query}
    request.COOKIES, request.GET = source.COOKIES, QueryDict(query)
    request._body = orjson.dumps(operation["body"]) if operation.get("body") is not None else b""
    request._read_started = True  # type: ignore[attr-defined]  # the request has no stream
    request.META["CONTENT_LENGTH"] = str(len(request._body))
    if key:
        request.META["HTTP_IDEMPOTENCY_KEY"] = key
    return request


def resolve_operation(
    operation: dict[str, Any], path: str, *, require_rollback: bool
) -> ResolverMatch:
    """Return the view of an operation.

    Public operations are not permitted: logins would avoid the delays between failures. Raises
    Http404 for an unknown path, and ApplianceError with INVALID if the operation is not permitted
    in a bulk request.
    """
    match = resolve(path)
    view = getattr(match.func, "view_class", None)
    is_public = view is not None and view.privileges.get(operation["method"]) == "public"
    if view is None or is_public or issubclass(view, BulkView):
        raise ApplianceError(
            Code.INVALID, f"{operation['path'][:80]} is not supported in a bulk request."
        )
    method = operation["method"]
    if require_rollback and (method not in UNSAFE_METHODS or method in view.read_only_methods):
        raise ApplianceError(
            Code.INVALID,
            "A bulk request with `atomic` or `dry_run` contains changes only: reads would hold up"
            " the changes of others. Read before or after it.",
        )
    if require_rollback and not supports_dry_run(view(), operation["method"]):
        raise ApplianceError(
            Code.INVALID,
            f"{operation['method']} {operation['path'][:80]} has effects outside the database and"
            " cannot be rolled back; send it as a single request.",
        )
    if require_rollback and view.returns_secret and operation["method"] == "POST":
        raise ApplianceError(
            Code.INVALID,
            f"{operation['path'][:80]} returns a secret; send it as a single request.",
        )
    return match


def run_operation(
    outer: Request, operation: dict[str, Any], *, require_rollback: bool, key: str = ""
) -> dict[str, Any]:
    """Run one operation and return its status and body.

    `key` is its Idempotency-Key. With `require_rollback` it must have no effects outside the
    database.
    """
    relative_path, _, query = operation["path"].partition("?")
    path = ROOT + relative_path
    try:
        match = resolve_operation(operation, path, require_rollback=require_rollback)
    except Http404:
        detail = f"No operation at {path[:80]}. See /api/docs for all operations."
        return {"status": 404, "body": {"code": str(Code.NOT_FOUND), "detail": detail}}
    inner = build_request(outer, operation, path, query, key)
    inner.resolver_match = match
    response = match.func(inner, *match.args, **match.kwargs)
    note_refusals(outer, getattr(response, "refusals", ()))
    if hasattr(response, "watch_stream") or not is_json(response):
        raise ApplianceError(
            Code.INVALID, "Streams and downloads are not supported in a bulk request."
        )
    if hasattr(response, "render"):
        response.render()
    return {
        "status": response.status_code,
        "body": orjson.loads(response.content) if response.content else None,
    }


def note_refusals(outer: Request, refused: Sequence[Refusal]) -> None:
    """Keep the refusals of an operation for the response to the bulk request."""
    vars(outer._request).setdefault("inner_refusals", []).extend(refused)


def is_json(response: HttpResponseBase) -> bool:
    """Return whether the response has a JSON body or none."""
    return isinstance(response, Response) or response["Content-Type"].endswith("json")


class BulkView(ApplianceView):
    """Each operation checks its own privilege."""

    privileges: ClassVar[dict[str, str]] = {"POST": "account.self"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})

    @extend_schema(request=BulkRequestSerializer, responses=BulkResponseSerializer)
    def post(self, request: Request) -> Response:
        """Run up to 100 operations in order.

        Each operation has its own status. The parameter `wait` of an operation has no effect.
        """
        form = BulkRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        operations = form.validated_data["operations"]
        dry_run = request.query_params.get("dry_run") == "true"
        if form.validated_data["atomic"] and not dry_run:
            return idempotent(
                request,
                lambda: (200, {"results": run_atomically(request, operations)}),
                authority=digest_of_privileges(request_user(request)),
            )
        return Response({"results": run_each(request, operations, dry_run=dry_run)})


def run_each(
    request: Request, operations: list[dict[str, Any]], *, dry_run: bool
) -> list[dict[str, Any]]:
    """Run the operations one after the other, until the results are too long."""
    key = key_of(request)
    results: list[dict[str, Any]] = []
    size = 0
    for n, operation in enumerate(operations):
        if size > MAX_RESULT_BYTES:
            results.append(NOT_RUN)
            continue
        results.append(
            run_operation(
                request,
                operation,
                require_rollback=dry_run,
                key=sha256(f"{key}/{n}".encode()).hexdigest() if key else "",
            )
        )
        size += len(orjson.dumps(results[-1]))
    return results


@write_transaction
def run_atomically(request: Request, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run all operations in one transaction and return their results.

    Raises ApplianceError with CONFLICT and the results so far if an operation fails, so that all
    operations are rolled back.
    """
    results = []
    for n, operation in enumerate(operations, 1):
        results.append(run_operation(request, operation, require_rollback=True))
        if results[-1]["status"] >= 400:
            detail = (results[-1]["body"] or {}).get("detail", "")
            raise ApplianceError(
                Code.CONFLICT,
                f"Operation {n} of {len(operations)} failed; all were rolled back: {detail}",
                results=results,
            )
    return results
