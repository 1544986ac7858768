"""Cursor pagination of list endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from appliance.api.errors import ApplianceError, Code

DEFAULT_LIMIT, MAX_LIMIT = 50, 500


class CursorPagination(BasePagination):
    """Pages selected by `limit` and `cursor`, newest first.

    Primary keys are UUIDv7, so that their order is the order of creation.
    """

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
        """Return the first `limit` rows and remember the cursor of the next page.

        `found` has one row more than the limit if there is a next page.
        """
        self.next = str(key(found[limit - 1])) if len(found) > limit else None
        return found[:limit]

    @staticmethod
    def bounds(request: Request) -> tuple[int, UUID | None]:
        """Return the limit and the id of the last row of the previous page.

        Raises ApplianceError (INVALID).
        """
        try:
            limit = int(request.query_params.get("limit", DEFAULT_LIMIT))
        except ValueError:
            limit = 0
        if not 1 <= limit <= MAX_LIMIT:
            raise ApplianceError(Code.INVALID, f"limit must be a number between 1 and {MAX_LIMIT}.")
        cursor = request.query_params.get("cursor")
        try:
            return limit, UUID(cursor) if cursor is not None else None
        except ValueError:
            raise ApplianceError(
                Code.INVALID, "cursor is not valid; restart the list without it."
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
                "description": "`next` of the previous page.",
            },
        ]

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["items", "next"],
            "properties": {"items": schema, "next": {"type": "string", "nullable": True}},
        }
