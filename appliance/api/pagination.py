"""Cursor pagination of list endpoints."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Q
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from appliance.api.errors import ApplianceError, Code

DEFAULT_LIMIT, MAX_LIMIT = 50, 500
MAX_NUMBER = (1 << 63) - 1
MAX_CURSOR_LENGTH = 2000


@dataclass(frozen=True)
class Order:
    """Column by which a list can be ordered. It has no nulls, because a cursor compares values."""

    column: str
    attribute: str = ""
    """Attribute of a row with the value, if it is not the column's name."""
    kind: type = str
    """Type of the values: `str`, `int` or `datetime`."""

    def value_of(self, row: Any) -> Any:
        return attrgetter(self.attribute or self.column)(row)


BY_CREATION = Order("pk")


class CursorPagination(BasePagination):
    """Pages selected by `limit` and `cursor`, newest first unless another order is given.

    A cursor names the last row of its page: by its id in the order of creation, else also by its
    value of the column, so that the database continues there.
    """

    def __init__(self, order: Order = BY_CREATION, *, reverse: bool = True) -> None:
        self.order, self.reverse = order, reverse

    def paginate_queryset(
        self, queryset: Any, request: Request, view: APIView | None = None
    ) -> list[Any]:
        limit, after = self.limit(request), request.query_params.get("cursor")
        sign = "-" if self.reverse else ""
        columns = dict.fromkeys((self.order.column, "pk"))
        rows = queryset.order_by(*(sign + column for column in columns))
        if after is not None:
            rows = rows.filter(self.behind(after))
        return self.cut(list(rows[: limit + 1]), limit, self.cursor_of)

    def behind(self, cursor: str) -> Q:
        """Return the condition of the rows behind a cursor. Raises ApplianceError (INVALID)."""
        beyond = "lt" if self.reverse else "gt"
        column = self.order.column
        if column == "pk":
            return Q(**{f"pk__{beyond}": parse_id(cursor)})
        value, pk = self.parse_cursor(cursor)
        return Q(**{f"{column}__{beyond}": value}) | Q(**{column: value, f"pk__{beyond}": pk})

    def cursor_of(self, row: Any) -> str:
        if self.order.column == "pk":
            return str(row.pk)
        content = orjson.dumps([self.order.column, self.order.value_of(row), str(row.pk)])
        return base64.urlsafe_b64encode(content).decode().rstrip("=")

    def parse_cursor(self, text: str) -> tuple[Any, UUID]:
        """Return value and id of the last row. Raises ApplianceError (INVALID)."""
        try:
            padded = text[:MAX_CURSOR_LENGTH] + "=" * (-len(text) % 4)
            column, value, pk = orjson.loads(base64.urlsafe_b64decode(padded))
            if column != self.order.column:
                raise ValueError("cursor of another order")
            return checked(value, self.order.kind), UUID(pk)
        except (ValueError, TypeError, AttributeError, binascii.Error):
            raise invalid_cursor() from None

    def cut(self, found: list[Any], limit: int, key: Callable[[Any], object]) -> list[Any]:
        """Return the first `limit` rows and remember the cursor of the next page.

        `found` has one row more than the limit if there is a next page.
        """
        self.next = str(key(found[limit - 1])) if len(found) > limit else None
        return found[:limit]

    @classmethod
    def bounds(cls, request: Request) -> tuple[int, UUID | None]:
        """Return the limit and the id of the last row of the previous page, newest first.

        Raises ApplianceError (INVALID).
        """
        cursor = request.query_params.get("cursor")
        return cls.limit(request), parse_id(cursor) if cursor is not None else None

    @staticmethod
    def limit(request: Request) -> int:
        try:
            limit = int(request.query_params.get("limit", DEFAULT_LIMIT))
        except ValueError:
            limit = 0
        if not 1 <= limit <= MAX_LIMIT:
            raise ApplianceError(Code.INVALID, f"limit must be a number between 1 and {MAX_LIMIT}.")
        return limit

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"items": data, "next": self.next})

    def get_schema_operation_parameters(self, view: APIView) -> list[dict[str, Any]]:
        limit = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT}
        return [
            {
                "name": "limit",
                "in": "query",
                "required": False,
                "schema": limit,
                "description": "Largest number of items of the page.",
            },
            {
                "name": "cursor",
                "in": "query",
                "required": False,
                "schema": {"type": "string"},
                "description": "`next` of the previous page, in the same order.",
            },
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["items", "next"],
            "properties": {
                "items": schema,
                "next": {
                    "type": "string",
                    "nullable": True,
                    "description": "`cursor` of the next page; null on the last page.",
                },
                "count": {
                    "type": "integer",
                    "description": "Number of objects on all pages, with `count=true` only.",
                },
            },
        }


def parse_id(cursor: str) -> UUID:
    try:
        return UUID(cursor)
    except ValueError:
        raise invalid_cursor() from None


def invalid_cursor() -> ApplianceError:
    return ApplianceError(
        Code.INVALID, "cursor is not valid in this order; restart the list without it."
    )


def as_utc(value: datetime) -> datetime:
    """Return a time of a cursor. Raises ValueError for one that databases cannot convert."""
    try:
        return value.astimezone(UTC)
    except OverflowError:  # the first or last day, in another zone
        raise ValueError("no time in UTC") from None


def checked(value: Any, kind: type) -> Any:
    """Return a value of a cursor in its type. Raises ValueError: clients can write cursors."""
    if kind is datetime:
        return as_utc(datetime.fromisoformat(value))
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError("another type")
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a NUL character")
    if isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise ValueError("too large a number")
    return value
