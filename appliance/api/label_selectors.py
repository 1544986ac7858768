"""Label selectors of lists: `rack=r1,tier in (a, b),zone notin (c),gpu,!broken`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from django.db.models import Q, QuerySet
from django.db.models.fields.json import KeyTransform

from appliance.api.errors import ApplianceError, Code

MAX_REQUIREMENTS = 32
MAX_VALUES = 32

R = TypeVar("R", bound=QuerySet[Any])


class LabelValue(KeyTransform):
    """The value of a label, as JSON.

    For `KeyTransform` a key of digits is the index of an array: it finds no label, and PostgreSQL
    refuses a large one.
    """

    def as_sqlite(
        self, compiler: Any, connection: Any, *_: Any, **__: Any
    ) -> tuple[str, tuple[Any, ...]]:
        column, parameters = compiler.compile(self.lhs)
        path = f"$.{json.dumps(self.key_name)}"
        return f"JSON_EXTRACT({column}, %s)", (*parameters, path)

    def as_postgresql(
        self, compiler: Any, connection: Any, *_: Any, **__: Any
    ) -> tuple[str, tuple[Any, ...]]:
        column, parameters = compiler.compile(self.lhs)
        return f"({column} -> %s)", (*parameters, self.key_name)


class Requirement(NamedTuple):
    """A condition on one label. All requirements of a selector must hold."""

    key: str
    operator: str
    """`in` and `notin` with values, `exists` and `absent` without."""
    values: tuple[str, ...] = ()


SET = re.compile(r"(?P<key>[^=!(),]+?)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
COMPARISON = re.compile(r"(?P<key>[^=!(),]+?)\s*(?P<operator>==?|!=)(?P<value>[^,]*)")
PRESENCE = re.compile(r"(?P<absent>!?)\s*(?![^\s,]+\s+(?:in|notin)\b)(?P<key>[^=!(),]+)")
SEPARATOR = re.compile(r"\s*(,|$)\s*")


def parse_selector(text: str) -> list[Requirement]:
    """Return the requirements of a selector. Raises ApplianceError INVALID."""
    found: list[Requirement] = []
    position = len(text) - len(text.lstrip())
    while True:
        requirement, position = parse_requirement(text, position)
        found.append(requirement)
        separator = SEPARATOR.match(text, position)
        if separator is None or len(found) > MAX_REQUIREMENTS:
            raise invalid_selector(text, position)
        position = separator.end()
        if not separator[1]:
            return found


def parse_requirement(text: str, position: int) -> tuple[Requirement, int]:
    """Return the requirement at a position, and the position behind it."""
    if match := SET.match(text, position):
        values = tuple(value.strip() for value in match["values"].split(","))
        if len(values) > MAX_VALUES:
            raise invalid_selector(text, match.start("values"))
        return Requirement(match["key"], match["operator"], values), match.end()
    if match := COMPARISON.match(text, position):
        operator = "notin" if match["operator"] == "!=" else "in"
        return Requirement(match["key"], operator, (match["value"].strip(),)), match.end()
    if match := PRESENCE.match(text, position):
        operator = "absent" if match["absent"] else "exists"
        return Requirement(match["key"].strip(), operator), match.end()
    raise invalid_selector(text, position)


def invalid_selector(text: str, position: int) -> ApplianceError:
    at = f" at {text[position : position + 20]!r}" if position < len(text) else " at its end"
    return ApplianceError(
        Code.INVALID,
        f"Invalid label selector{at}; expected requirements separated by commas, of the forms "
        "KEY=VALUE, KEY!=VALUE, KEY in (A, B), KEY notin (A, B), KEY and !KEY.",
    )


def select_by_labels(rows: R, column: str, requirements: Iterable[Requirement]) -> R:
    """Keep rows that meet all requirements. Keys are user input and never enter a lookup.

    Rows without the label meet `notin`.
    """
    for number, (key, operator, values) in enumerate(requirements):
        has_key = Q(**{f"{column}__has_key": key})
        if operator in ("exists", "absent"):
            rows = rows.filter(has_key if operator == "exists" else ~has_key)
            continue
        name = f"label{number}"
        one_of = Q()
        for value in values:
            one_of |= Q(**{name: value})
        rows = rows.alias(**{name: LabelValue(key, column)})
        rows = rows.filter(one_of if operator == "in" else ~has_key | ~one_of)
    return rows
