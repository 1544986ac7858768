"""POST /api/v1/bulk: many operations in one request, each with its own answer; atomic: all of them or none."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import orjson
from django.http import Http404, HttpRequest, QueryDict
from django.urls import ResolverMatch, resolve
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.activity.idempotency import idempotent
from appliance.errors import ApplianceError, Code
from appliance.fields import StrictBooleanField
from appliance.rest import CHANGING, ApplianceView, can_be_tried
from appliance.writer import Undone, writes

MAX_OPERATIONS = 100
ROOT = "/api/v1/"
CARRIED = (
    "HTTP_AUTHORIZATION",
    "HTTP_HOST",
    "HTTP_ORIGIN",
    "SERVER_NAME",
    "SERVER_PORT",
    "REMOTE_ADDR",
    "wsgi.url_scheme",
)


class OperationSerializer(serializers.Serializer[dict[str, Any]]):
    method = serializers.ChoiceField(("GET", *CHANGING))
    path = serializers.RegexField(
        r"^[a-z][!-~]{0,500}$",
        help_text="Below /api/v1/, such as nodes/ID/cordon; parameters after ?.",
    )
    body = serializers.JSONField(required=False, allow_null=True, help_text="Of the operation.")


class BulkRequestSerializer(serializers.Serializer[dict[str, Any]]):
    operations = serializers.ListField(
        child=OperationSerializer(), min_length=1, max_length=MAX_OPERATIONS
    )
    atomic = StrictBooleanField(
        default=False,
        help_text="When one is refused, nothing of all is changed and the answer is a conflict.",
    )


class ResultSerializer(serializers.Serializer[dict[str, Any]]):
    status = serializers.IntegerField()
    body = serializers.JSONField(allow_null=True, help_text="Its answer, or its problem.")


class BulkAnswerSerializer(serializers.Serializer[dict[str, Any]]):
    results = ResultSerializer(many=True, help_text="In the order of the operations.")


def request_for(
    outer: Request, operation: dict[str, Any], path: str, query: str, key: str
) -> HttpRequest:
    """As if it had come by itself, from the same person."""
    made = HttpRequest()
    given = outer._request
    made.method, made.path, made.path_info = operation["method"], path, path
    made.META = {name: given.META[name] for name in CARRIED if name in given.META} | {
        "CONTENT_TYPE": "application/json",
        "QUERY_STRING": query,
    }
    made.COOKIES, made.GET = given.COOKIES, QueryDict(query)
    made._body = orjson.dumps(operation["body"]) if operation.get("body") is not None else b""
    made._read_started = True  # type: ignore[attr-defined]  # there is no stream behind it
    made.META["CONTENT_LENGTH"] = str(len(made._body))
    if key:
        made.META["HTTP_IDEMPOTENCY_KEY"] = key
    return made


def found(operation: dict[str, Any], path: str, *, triable: bool) -> ResolverMatch:
    match = resolve(path)
    view = getattr(match.func, "view_class", None)
    if view is None or issubclass(view, BulkView):
        raise ApplianceError(Code.INVALID, f"{operation['path'][:80]} cannot be a part of many.")
    if (
        triable
        and operation["method"] in CHANGING
        and not can_be_tried(view(), operation["method"])
    ):
        what = f"{operation['method']} {operation['path'][:80]}"
        raise ApplianceError(
            Code.INVALID,
            f"{what} does more than change rows, so it cannot be undone with the others.",
        )
    return match


def done(
    outer: Request, operation: dict[str, Any], *, triable: bool, key: str = ""
) -> dict[str, Any]:
    """Status and body of one. `triable`: it must change nothing but rows. `key`: the Idempotency-Key that it has then."""
    below, _, query = operation["path"].partition("?")
    path = ROOT + below
    try:
        match = found(operation, path, triable=triable)
    except Http404:
        return {
            "status": 404,
            "body": {
                "code": str(Code.NOT_FOUND),
                "detail": "There is no such operation; /api/docs lists all.",
            },
        }
    response = match.func(
        request_for(outer, operation, path, query, key), *match.args, **match.kwargs
    )
    if hasattr(response, "watching"):
        raise ApplianceError(Code.INVALID, "A stream cannot be a part of many.")
    if hasattr(response, "render"):
        response.render()
    return {
        "status": response.status_code,
        "body": orjson.loads(response.content) if response.content else None,
    }


class BulkView(ApplianceView):
    """Each operation takes its own privilege."""

    privileges: ClassVar[dict[str, str]] = {"POST": "account.self"}

    @extend_schema(request=BulkRequestSerializer, responses=BulkAnswerSerializer)
    def post(self, request: Request) -> Response:
        """Up to a hundred operations, one after the other. Parameters such as wait have no effect here."""
        form = BulkRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        operations, atomic = form.validated_data["operations"], form.validated_data["atomic"]
        if request.query_params.get("dry_run") == "true" or not atomic:
            triable = request.query_params.get("dry_run") == "true"
            key = request.headers.get("Idempotency-Key", "")[:190]
            return Response(
                {
                    "results": [
                        done(request, o, triable=triable, key=f"{key}/{n}" if key else "")
                        for n, o in enumerate(operations)
                    ]
                }
            )
        return idempotent(request, lambda: (200, {"results": all_or_none(request, operations)}))


def all_or_none(request: Request, operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Raises ApplianceError for the first that is refused."""

    @writes
    def run() -> list[dict[str, Any]]:
        results = []
        for n, operation in enumerate(operations, 1):
            results.append(done(request, operation, triable=True))
            if results[-1]["status"] >= 400:
                raise Undone((n, results))
        return results

    try:
        return run()
    except Undone as end:
        n, results = cast("tuple[int, list[dict[str, Any]]]", end.answer)
        why = (results[-1]["body"] or {}).get("detail", "")
        raise ApplianceError(
            Code.CONFLICT,
            f"Operation {n} of {len(operations)} was refused, so nothing was changed: {why}",
            results=results,
        ) from None
