"""Label selectors of lists: `rack=r1,tier in (a, b),zone notin (c),gpu,!broken`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from django.db.models import Func, Q, QuerySet, TextField, Value

from appliance.api.errors import ApplianceError, Code

MAX_REQUIREMENTS = 32
MAX_VALUES = 32

R = TypeVar("R", bound=QuerySet[Any])


class LabelValue(Func):
    """The value of a label, NULL without it. Arguments are the column and the key.

    Keys are compared as they are. SQLite's paths know no escapes, so no path names all keys, and
    for Django's transforms a key of digits is the index of an array.
    """

    arity = 2
    output_field = TextField()

    def as_sqlite(self, compiler: Any, connection: Any, **_: Any) -> Any:
        template = "(SELECT value FROM JSON_EACH(%(expressions)s))"
        return self.as_sql(compiler, connection, template=template, arg_joiner=") WHERE (key = ")

    def as_postgresql(self, compiler: Any, connection: Any, **_: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(expressions)s)", arg_joiner=" ->> ")


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
        name = f"label{number}"
        is_absent = Q(**{f"{name}__isnull": True})
        one_of = Q(**{f"{name}__in": values})
        conditions = {
            "exists": ~is_absent,
            "absent": is_absent,
            "in": one_of,
            "notin": is_absent | ~one_of,
        }
        rows = rows.alias(**{name: LabelValue(column, Value(key))}).filter(conditions[operator])
    return rows
