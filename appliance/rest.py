"""DRF glue: problem+json, cursor pages, idempotency, the permission that every view names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from uuid import UUID

import orjson
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db.models import Model, QuerySet
from django.db.models.fields.json import KeyTransform
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter
from rest_framework import exceptions
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.views import APIView

from appliance.encoding import encoded
from appliance.errors import STATUS, ApplianceError, Code
from appliance.writer import undone

if TYPE_CHECKING:
    from appliance.accounts.models import User

Q = TypeVar("Q", bound=QuerySet[Any])
DEFAULT_LIMIT, MAX_LIMIT = 50, 500


def problem(
    code: Code,
    detail: str,
    request: Request | None,
    errors: list[dict[str, str]] | None = None,
    **fields: object,
) -> Response:
    body: dict[str, object] = {
        "type": f"/docs/errors#{code}",
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
    if code in (Code.BUSY, Code.TOO_MANY_ATTEMPTS):
        response["Retry-After"] = "1" if code == Code.BUSY else "900"
    if code == Code.UNAUTHENTICATED:
        response["WWW-Authenticate"] = "Bearer"
    return response


def field_errors(detail: Any, pointer: str = "") -> Iterable[dict[str, str]]:
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


def problem_response(error: Exception, context: dict[str, Any]) -> Response | None:
    """DRF's exception handler: every error leaves as application/problem+json."""
    request = context.get("request")
    if isinstance(error, ApplianceError):
        return problem(error.code, error.detail, request, None, **error.fields)
    if isinstance(error, exceptions.ValidationError):
        return problem(
            Code.INVALID,
            "Some values are not right; see errors.",
            request,
            list(field_errors(error.detail)),
        )
    if isinstance(error, DjangoValidationError):
        return problem(Code.INVALID, " ".join(error.messages), request)
    if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
        return problem(
            Code.UNAUTHENTICATED,
            "Sign in with `busbar login`, or send a token in the Authorization header.",
            request,
        )
    if isinstance(error, exceptions.PermissionDenied):
        return problem(Code.DENIED, str(error.detail), request)
    if isinstance(error, Http404 | exceptions.NotFound):
        return problem(Code.NOT_FOUND, "There is no such object, or you may not see it.", request)
    if isinstance(error, exceptions.APIException):
        response = problem(Code.INVALID, str(error.detail), request)
        response.status_code = error.status_code
        response.data["status"] = error.status_code
        return response
    return None


Filter = Callable[[str], Any]
"""Text of the parameter to what the column is compared with; raises ApplianceError when it is none of its values."""


def one_of(*values: str) -> Filter:
    def parse(text: str) -> str:
        if text not in values:
            raise ApplianceError(Code.INVALID, f"{text[:40]} is none of {', '.join(values)}.")
        return text

    parse.choices = values  # type: ignore[attr-defined]
    return parse


def truth(text: str) -> bool:
    return bool(one_of("true", "false")(text) == "true")


def an_id(text: str) -> UUID:
    return uuid_or_invalid(f"{text[:40]}:", text)


def a_time(text: str) -> datetime:
    """ISO 8601 with its offset, such as 2026-11-22T09:00:00Z."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ApplianceError(Code.INVALID, f"{text[:40]} is no time such as 2026-11-22T09:00:00Z.")
    try:
        return found.astimezone(UTC)
    except OverflowError:  # the first and the last day, in another zone
        return found.replace(tzinfo=UTC)


def text(value: str) -> str:
    if len(value) > 200 or "\0" in value:
        raise ApplianceError(Code.INVALID, "A filter has at most 200 characters, and no NUL.")
    return value


def labels(value: str) -> dict[str, str]:
    """key=value,key=value"""
    pairs = [part.partition("=") for part in text(value).split(",")]
    if any(not key or not equals for key, equals, _ in pairs):
        raise ApplianceError(Code.INVALID, "labels are written key=value, with commas between.")
    return {key.strip(): found.strip() for key, _, found in pairs}


DESCRIPTIONS: dict[Filter, Any] = {
    truth: bool,
    an_id: UUID,
    a_time: datetime,
    text: {"type": "string", "maxLength": 200},
    labels: {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,60}=[A-Za-z0-9_.-]{0,60}$"},
}
"""What they take, for the OpenAPI file; that of labels is narrower than the truth, which one expression cannot say."""


def filtered(request: Request, rows: Q, filters: Mapping[str, tuple[str, Filter]]) -> Q:
    """`filters`: parameter to (lookup, parser)."""
    for name, wanted in parsed_filters(request, filters).items():
        lookup = filters[name][0]
        rows = (
            labelled(rows, lookup, wanted)
            if isinstance(wanted, dict)
            else rows.filter(**{lookup: wanted})
        )
    return rows


def parsed_filters(request: Request, filters: Mapping[str, tuple[str, Filter]]) -> dict[str, Any]:
    """Those that were given. A parameter that is not there is refused, so that a typing error never shows everything."""
    refuse_unknown_parameters(request, filters)
    wanted = {}
    for name, (_, parse) in filters.items():
        if (given := request.query_params.get(name)) is not None:
            try:
                wanted[name] = parse(given)
            except ApplianceError as problem:
                raise ApplianceError(problem.code, f"{name}: {problem.detail}") from None
    return wanted


def labelled(rows: Q, column: str, wanted: Mapping[str, str]) -> Q:
    """A key is anybody's text, so it must not become part of a lookup."""
    for i, (key, value) in enumerate(wanted.items()):
        rows = rows.alias(**{f"label{i}": KeyTransform(key, column)}).filter(**{f"label{i}": value})
    return rows


def filter_parameters(filters: Mapping[str, tuple[str, Filter]]) -> list[OpenApiParameter]:
    def described(name: str, parse: Filter) -> OpenApiParameter:
        shape = DESCRIPTIONS.get(parse, str)
        return OpenApiParameter(
            name,
            shape,
            description=(parse.__doc__ or "").strip(),
            enum=getattr(parse, "choices", None),
        )

    return [described(name, parse) for name, (_, parse) in filters.items()]


class CursorPage(BasePagination):
    """`limit` and `cursor`; newest first by id, which is a UUIDv7 and so a time."""

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any]:
        limit, after = self.bounds(request)
        rows = queryset.order_by("-pk")
        return self.cut(
            list((rows.filter(pk__lt=after) if after else rows)[: limit + 1]),
            limit,
            lambda row: row.pk,
        )

    def cut(self, found: list[Any], limit: int, key: Callable[[Any], UUID]) -> list[Any]:
        """`found`: one more than the page has, if there are so many."""
        self.next = str(key(found[limit - 1])) if len(found) > limit else None
        return found[:limit]

    @staticmethod
    def bounds(request: Request) -> tuple[int, UUID | None]:
        """How many, and the last one of the page before."""
        try:
            limit = int(request.query_params.get("limit", DEFAULT_LIMIT))
        except ValueError:
            raise ApplianceError(Code.INVALID, "limit must be a number from 1 to 500.") from None
        if not 1 <= limit <= MAX_LIMIT:
            raise ApplianceError(Code.INVALID, "limit must be a number from 1 to 500.")
        cursor = request.query_params.get("cursor")
        try:
            return limit, UUID(cursor) if cursor is not None else None
        except ValueError:
            raise ApplianceError(
                Code.INVALID, "The cursor is not one of ours; start again without it."
            ) from None

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"items": data, "next": self.next})

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
        return [
            {"name": "limit", "in": "query", "required": False, "schema": limit},
            {
                "name": "cursor",
                "in": "query",
                "required": False,
                "schema": {"type": "string", "format": "uuid"},
                "description": "`next` of the page before.",
            },
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["items", "next"],
            "properties": {"items": schema, "next": {"type": "string", "nullable": True}},
        }


@lru_cache
def showing(serializer: type[Serializer[Any]]) -> Serializer[Any]:
    """One instance for all rows: making its fields takes longer than showing a row with them."""
    made = serializer()
    _ = made.fields
    return made


def shown(serializer: type[Serializer[Any]], row: Any) -> dict[str, Any]:
    return dict(showing(serializer).to_representation(row))


def plain(data: Any) -> dict[str, Any]:
    """As JSON has it, so that the kept answer of a repeated request is the same."""
    result: dict[str, Any] = orjson.loads(encoded(data))
    return result


def caller(request: Request) -> User:
    """Who asks. Only behind a view whose privilege is not `public`."""
    from appliance.accounts.models import User

    if not isinstance(request.user, User):
        raise exceptions.NotAuthenticated
    return request.user


def uuid_or_invalid(name: str, value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError:
        raise ApplianceError(Code.INVALID, f"{name} must be a UUID.") from None


def refuse_unknown_parameters(request: Request, known: Iterable[str]) -> None:
    unknown = set(request.query_params) - set(known) - {"limit", "cursor", "format"}
    if unknown:
        raise ApplianceError(
            Code.INVALID,
            f"Unknown parameter {sorted(unknown)[0]}; known are {', '.join(sorted(known)) or 'none'}.",
        )


MAX_WAIT_SECONDS = 60.0
SECONDS = {"type": "number", "format": "double", "minimum": 0, "maximum": MAX_WAIT_SECONDS}
WAIT = OpenApiParameter(
    "wait",
    SECONDS,
    description="Answer only when it is over or so many seconds have passed; 60 at most.",
)


@dataclass(frozen=True)
class Until:
    """An answer that may be better in a moment. The ASGI handler waits for it without a thread, in another process than the one that made it."""

    kind: str
    object_id: UUID
    seconds: float
    over: Callable[[], bool]
    show: Callable[[], Mapping[str, Any]]
    """The body as it is now. Both read the database, and can be pickled."""


def wait_for(
    request: Request,
    response: Response,
    kind: str,
    object_id: UUID,
    over: Callable[[], bool],
    show: Callable[[], Mapping[str, Any]],
) -> Response:
    """Honours `?wait=`."""
    wanted = request.query_params.get("wait")
    if wanted is not None:
        try:
            seconds = float(wanted)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= MAX_WAIT_SECONDS:
            raise ApplianceError(
                Code.INVALID, f"wait must be a number of seconds from 0 to {MAX_WAIT_SECONDS:.0f}."
            )
        response.until = Until(kind, object_id, seconds, over, show)  # type: ignore[attr-defined]
    return response


CHANGING = ("POST", "PUT", "PATCH", "DELETE")


def can_be_tried(view: ApplianceView, method: str) -> bool:
    return view.dry_runs and view.privileges.get(method) != "public"


class ApplianceView(APIView):
    """Every view names the privilege of each method; a test lists those that do not."""

    privileges: ClassVar[dict[str, str]] = {}
    """HTTP method to privilege, or `public`."""
    dry_runs: ClassVar[bool] = True
    """Whether its changes can be tried with `?dry_run=true`: not where more than rows is touched."""
    looks: ClassVar[frozenset[str]] = frozenset()
    """Methods, beside those that always do, that change nothing: whoever looks does not take time from those who change something."""
    quick: ClassVar[bool] = False
    """Its changes are made on the writer's thread from the beginning, for it does nothing that is slow: no hashing of passwords, no network."""
    refusals: ClassVar[frozenset[int]] = frozenset()
    """Statuses of refusals that other operations do not have."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        method = request.method or ""
        wanted = request.query_params.get("dry_run") if method in CHANGING else None
        if wanted is None or wanted == "false":
            return
        if wanted != "true" or not can_be_tried(self, method):
            raise ApplianceError(
                Code.INVALID,
                "dry_run is true or false, and this operation cannot be tried."
                if wanted == "true"
                else "dry_run is true or false.",
            )
        handler = getattr(self, method.lower())

        def tried(*a: Any, **k: Any) -> Response:
            response: Response = undone(lambda: handler(*a, **k))
            response.__dict__.pop("until", None)  # what would be is not there to be waited for
            return response

        setattr(self, method.lower(), tried)

    def check_permissions(self, request: Request) -> None:
        from appliance.accounts.permissions import can

        privilege = self.privileges.get(request.method or "")
        if privilege == "public":
            return
        super().check_permissions(request)
        if privilege is None:
            raise exceptions.MethodNotAllowed(request.method or "")
        user = caller(request)
        if user.must_change_password and privilege != "account.self":
            raise ApplianceError(
                Code.PASSWORD_CHANGE_REQUIRED,
                "Choose your own password first: `busbar login` asks for it.",
            )
        if privilege != "account.self" and not can(user, privilege):
            raise ApplianceError(
                Code.DENIED,
                f"Your roles do not include {privilege}; ask an administrator for one that does.",
            )

    def perform_authentication(self, request: Request) -> None:
        if self.privileges.get(request.method or "") != "public":
            super().perform_authentication(request)


def check_version(row: Model, request: Request) -> None:
    """If-Match against the row's version; absent means the caller does not care."""
    wanted = request.headers.get("If-Match")
    if wanted and wanted.strip('"') != str(getattr(row, "version", "")):
        raise ApplianceError(
            Code.STALE, "The object changed since you read it; read it again and repeat."
        )
