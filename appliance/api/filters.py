"""Filters of list endpoints: query parameters to conditions on query sets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from inspect import cleandoc
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from appliance.api.errors import ApplianceError, Code
from appliance.api.label_selectors import Requirement, parse_selector, select_by_labels

Q = TypeVar("Q", bound=QuerySet[Any])

Filter = Callable[[str], Any]
"""Parser of a parameter. Raises ApplianceError (INVALID) for a value that it does not accept."""

MAX_TEXT_LENGTH = 200
MAX_DIGITS = 9
MAX_SELECTOR_LENGTH = 2000


def parse_choice(*values: str) -> Filter:
    """Return a parser that accepts exactly these values."""

    def parse(text: str) -> str:
        if text not in values:
            raise ApplianceError(
                Code.INVALID, f"Invalid value {text[:40]}; expected {', '.join(values)}."
            )
        return text

    parse.choices = values  # type: ignore[attr-defined]
    return parse


def parse_boolean(text: str) -> bool:
    return bool(parse_choice("true", "false")(text) == "true")


def parse_id(text: str) -> UUID:
    return uuid_or_invalid(f"{text[:40]}:", text)


def parse_time(text: str) -> datetime:
    """ISO 8601 with its offset, such as 2026-11-22T09:00:00Z."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ApplianceError(
            Code.INVALID,
            f"Invalid time {text[:40]}; expected ISO 8601 with an offset, "
            "such as 2026-11-22T09:00:00Z.",
        )
    try:
        return found.astimezone(UTC)
    except OverflowError:  # the first and the last day, in another zone
        return found.replace(tzinfo=UTC)


def parse_whole_number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise ApplianceError(Code.INVALID, f"Invalid number {text[:40]}; expected a whole number.")
    return int(text)


def parse_text(value: str) -> str:
    if len(value) > MAX_TEXT_LENGTH or "\0" in value:
        raise ApplianceError(
            Code.INVALID, f"A filter has at most {MAX_TEXT_LENGTH} characters and no NUL character."
        )
    return value


def parse_labels(value: str) -> list[Requirement]:
    """Label selector: requirements separated by commas, all of which must hold. `rack=r1`,
    `rack!=r1`, `rack in (r1, r2)`, `rack notin (r1, r2)`, `rack` (has the label), `!rack`. An
    object without the label meets `!=` and `notin`.
    """
    if len(value) > MAX_SELECTOR_LENGTH or "\0" in value:
        raise ApplianceError(
            Code.INVALID,
            f"A label selector has at most {MAX_SELECTOR_LENGTH} characters and no NUL character.",
        )
    return parse_selector(value)


SCHEMAS: dict[Filter, Any] = {
    parse_boolean: bool,
    parse_id: UUID,
    parse_time: datetime,
    parse_whole_number: {"type": "integer", "minimum": 0, "maximum": 10**MAX_DIGITS - 1},
    parse_text: {"type": "string", "maxLength": MAX_TEXT_LENGTH},
    parse_labels: {
        "type": "string",
        "pattern": "^!?[A-Za-z0-9_.-]{1,60}$|^[A-Za-z0-9_.-]{1,60}!?=[A-Za-z0-9_.-]{0,60}$",
    },
}
"""OpenAPI type of each parser. The pattern of labels covers one requirement, without sets."""


def apply_filters(
    request: Request,
    rows: Q,
    filters: Mapping[str, tuple[str, Filter]],
    *,
    check_names: bool = True,
) -> Q:
    """Return the rows that match the request's parameters.

    `filters` maps a parameter to its lookup and parser. Raises ApplianceError (INVALID), also for
    unknown parameters unless the caller has checked the names.
    """
    for name, wanted in parse_filters(request, filters, check_names=check_names).items():
        lookup = filters[name][0]
        rows = (
            select_by_labels(rows, lookup, wanted)
            if filters[name][1] is parse_labels
            else rows.filter(**{lookup: wanted})
        )
    return rows


def parse_filters(
    request: Request, filters: Mapping[str, tuple[str, Filter]], *, check_names: bool = True
) -> dict[str, Any]:
    """Return the parsed value of each parameter in the request.

    Raises ApplianceError (INVALID) for unknown parameters, so that a typing error never returns
    all rows.
    """
    if check_names:
        reject_unknown_parameters(request, filters)
    wanted = {}
    for name, (_, parse) in filters.items():
        if (given := request.query_params.get(name)) is not None:
            try:
                wanted[name] = parse(given)
            except ApplianceError as problem:
                raise ApplianceError(problem.code, f"{name}: {problem.detail}") from None
    return wanted


def filter_parameters(filters: Mapping[str, tuple[str, Filter]]) -> list[OpenApiParameter]:
    """Return the OpenAPI parameters of these filters."""

    def described(name: str, lookup: str, parse: Filter) -> OpenApiParameter:
        schema: Any = SCHEMAS.get(parse) or getattr(parse, "schema", str)
        return OpenApiParameter(
            name,
            schema,
            description=f"{effect_of(name, lookup)} {cleandoc(parse.__doc__ or '')}".strip(),
            enum=getattr(parse, "choices", None),
        )

    return [described(name, lookup, parse) for name, (lookup, parse) in filters.items()]


def effect_of(name: str, lookup: str) -> str:
    """Return what a filter keeps, for its description."""
    column, _, comparison = lookup.rpartition("__")
    return {
        "gte": f"Only objects with `{column}` at or after this time.",
        "lt": f"Only objects with `{column}` before this time.",
        "startswith": f"Only objects whose `{column}` begins with this text.",
    }.get(comparison, f"Only objects with this `{name}`.")


def uuid_or_invalid(name: str, value: str) -> UUID:
    try:
        return UUID(value)
    except ValueError:
        raise ApplianceError(Code.INVALID, f"{name} must be a UUID.") from None


def reject_unknown_parameters(request: Request, known: Iterable[str]) -> None:
    """Raise ApplianceError (INVALID) for parameters other than `known` and those of pages."""
    unknown = set(request.query_params) - set(known) - {"limit", "cursor", "format"}
    if unknown:
        raise ApplianceError(
            Code.INVALID,
            f"Unknown parameter {sorted(unknown)[0]}; "
            f"expected {', '.join(sorted(known)) or 'none'}.",
        )
