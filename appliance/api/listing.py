"""List operations: filters, order, count and fields, the same for each resource.

A list reads one page with the queries of its view, whatever the parameters are; `count=true` adds
one query for the whole page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import (
    Filter,
    apply_filters,
    filter_parameters,
    parse_boolean,
    reject_unknown_parameters,
)
from appliance.api.pagination import CursorPagination, Order
from appliance.api.serialization import fields_of, serialize

Represent = Callable[[list[Any]], Iterable[Mapping[str, Any]]]
"""Returns the bodies of the rows of a page."""
LISTINGS: list[Listing] = []
"""All lists, for the test that compares filters with indexes."""
MAX_FIELDS_LENGTH = 1000
CREATED = {"created_at": Order("pk")}
"""Primary keys are UUIDv7, so that their order is the order of creation."""


@dataclass(eq=False)
class Listing:
    """Filters, orders and fields of a list. Each resource has one instance at module level."""

    serializer: type[Serializer[Any]]
    filters: Mapping[str, tuple[str, Filter]] = field(default_factory=dict)
    order: Mapping[str, Order] = field(default_factory=lambda: CREATED)
    """Names to columns without nulls. A leading `-` in the request reverses the order."""

    def __post_init__(self) -> None:
        LISTINGS.append(self)

    @cached_property
    def field_names(self) -> list[str]:
        return fields_of(self.serializer)

    @property
    def parameters(self) -> list[OpenApiParameter]:
        """The parameters of the operation in the OpenAPI document."""
        orders = [name for column in sorted(self.order) for name in (column, f"-{column}")]
        return [
            *filter_parameters(self.filters),
            OpenApiParameter(
                "order",
                enum=orders,
                default="-created_at",
                description="Field that orders the items; `-` in front reverses the order.",
            ),
            OpenApiParameter(
                "count",
                bool,
                description="If true, the response has `count`: the number of matching objects on "
                "all pages.",
            ),
            OpenApiParameter(
                "fields",
                {
                    "type": "array",
                    "items": {"type": "string", "enum": self.field_names},
                    "minItems": 1,
                },
                explode=False,
                description="Names of fields, separated by commas. Items then have these only.",
            ),
        ]

    def respond(
        self, request: Request, rows: QuerySet[Any], represent: Represent | None = None
    ) -> Response:
        """Return the page of the rows that the request asks for.

        `represent` replaces the serializer where rows need more than themselves. Raises
        ApplianceError INVALID for an unknown parameter or a wrong value.
        """
        self.reject_unknown_parameters(request)
        rows = apply_filters(request, rows, self.filters, check_names=False)
        page = self.page(request)
        found = page.paginate_queryset(rows, request)
        return self.respond_with(request, page, found, rows.count, represent)

    def page(self, request: Request) -> CursorPagination:
        """Return the pagination in the order that the request asks for."""
        text = request.query_params.get("order", "-created_at")
        name = text.removeprefix("-")
        if name not in self.order:
            raise ApplianceError(
                Code.INVALID,
                f"order: invalid value {text[:40]}; expected {', '.join(sorted(self.order))}, with "
                "- in front to reverse the order.",
            )
        return CursorPagination(self.order[name], reverse=text.startswith("-"))

    def respond_with(
        self,
        request: Request,
        page: CursorPagination,
        found: list[Any],
        count: Callable[[], int],
        represent: Represent | None = None,
    ) -> Response:
        """Return a page that was read already. `count` counts the filtered rows of all pages."""
        names = self.wanted_fields(request)
        if represent is None:
            items: list[Any] = [serialize(self.serializer, row, names) for row in found]
        else:
            items = [select(item, names) for item in represent(found)]
        response = page.get_paginated_response(items)
        if self.wants_count(request):
            response.data["count"] = count()
        return response

    def reject_unknown_parameters(self, request: Request) -> None:
        reject_unknown_parameters(request, [*self.filters, "order", "count", "fields"])

    def wants_count(self, request: Request) -> bool:
        try:
            return parse_boolean(request.query_params.get("count", "false"))
        except ApplianceError as problem:
            raise ApplianceError(Code.INVALID, f"count: {problem.detail}") from None

    def wanted_fields(self, request: Request) -> tuple[str, ...] | None:
        """Return the names in `fields`, or None if the request wants all."""
        text = request.query_params.get("fields")
        if text is None:
            return None
        names = dict.fromkeys(text[:MAX_FIELDS_LENGTH].split(","))
        for name in names:
            if name not in self.field_names:
                raise unknown_field(name, self.field_names)
        return tuple(names)


def unknown_field(name: str, known: list[str]) -> ApplianceError:
    similar = get_close_matches(name[:60], known, n=1)
    hint = f'Did you mean "{similar[0]}"?' if similar else f"Fields: {', '.join(known)}."
    return ApplianceError(Code.INVALID, f"fields: unknown field {name[:60]!r}. {hint}")


def select(item: Mapping[str, Any], names: tuple[str, ...] | None) -> Mapping[str, Any]:
    return item if names is None else {name: item[name] for name in names}
