"""Options for the fields of an object: names, types and help from the REST API."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any

import typer

from remoting.cli.amounts import parse_whole_seconds
from remoting.cli.api import NAME_FILTERS
from remoting.cli.api_fields import Schema, fields_of
from remoting.cli.completion import complete_names
from remoting.cli.option_words import parameter_of

Command = Callable[..., None]
TYPES: dict[str, Any] = {
    "array": list[str],
    "boolean": bool,
    "integer": int,
    "number": float,
    "string": str,
}
DURATION: dict[str, Any] = {"parser": parse_whole_seconds, "metavar": "DURATION"}
CLEARED = object()
"""Value of an option that empties its field: None is that of an option that is not given."""


def field_options(
    collection: str,
    *without: str,
    flags: Mapping[str, str] | None = None,
    absent: str | None = None,
) -> Callable[[Command], Command]:
    """Give a command an option for each field of a collection but those in `without` and maps.

    The command takes the values that were given, by the names of the fields, as `**values`.
    `without` names the fields that are parameters of the command. `flags` are the names of switches
    that are not called like their field. `absent` is the value of a text that is not given: with ""
    the command refuses empty texts (`empty_values.py`).
    """
    names = {"name": "--name", **(flags or {})}

    def decorate(command: Command) -> Command:
        found = signature(command, eval_str=True)
        fields = plain_fields(fields_of(collection, *without))
        options = [option_for(name, s, names.get(name), absent) for name, s in fields.items()]

        @wraps(command)
        def run(**given: Any) -> None:
            values = {name: given.pop(parameter_of(name)) for name in fields}
            values = {name: sent(v) for name, v in values.items() if v not in (None, absent)}
            # By position, because a field may be called like an argument, as `name` is.
            arguments = [given.pop(p.name) for p in needed]
            command(*arguments, **given, **values)

        own = [p for p in found.parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
        optional = [p for p in own if p.default is not Parameter.empty]
        needed = [p for p in own if p.default is Parameter.empty]
        parameters = [*needed, *options, *optional]
        run.__signature__ = found.replace(  # type: ignore[attr-defined]
            parameters=[p.replace(kind=Parameter.KEYWORD_ONLY) for p in parameters]
        )
        return run

    return decorate


def plain_fields(fields: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the fields that are no map."""
    return {name: schema for name, schema in fields.items() if schema["type"] != "object"}


def option_for(name: str, schema: Schema, flag: str | None, absent: str | None) -> Parameter:
    """Return the parameter of a command that sets a field."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    more = range_of(schema)
    if name.endswith("_seconds"):
        more = DURATION
    elif is_clearable(name, schema):
        more = {"parser": partial(parse_or_clear, TYPES[kinds[0]]), "metavar": "NUMBER"}
    elif f"{name}s" in NAME_FILTERS:
        more = {"autocompletion": complete_names(f"{name}s")}
    given = absent if kinds[0] == "string" else None
    default = typer.Option(given, *([flag] if flag else []), help=help_of(name, schema), **more)
    kind = TYPES[kinds[0]] | None
    return Parameter(parameter_of(name), Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def is_clearable(name: str, schema: Schema) -> bool:
    """Return whether `none` empties the field. A period without an end is 0 instead."""
    is_nullable_number = schema["type"] in (["integer", "null"], ["number", "null"])
    return is_nullable_number and not name.endswith("_seconds")


def parse_or_clear(kind: type[int] | type[float], text: str) -> object:
    """Return a number, or CLEARED. Raises BadParameter. The appliance checks the limits."""
    try:
        number = CLEARED if text == "none" else kind(text)
    except ValueError:
        number = math.nan
    if isinstance(number, float) and not math.isfinite(number):
        raise typer.BadParameter(f'"{text[:40]}" is neither a number nor none.')
    return number


def range_of(schema: Schema) -> dict[str, Any]:
    names = {"minimum": "min", "maximum": "max"}
    return {option: schema[limit] for limit, option in names.items() if limit in schema}


def help_of(name: str, schema: Schema) -> str:
    """Return the description of a field, with what it says to programs in other ways.

    An option `--name` renames an object: a new one has its name as an argument.
    """
    text: str = "New name." if name == "name" else schema["description"]
    values = [value for value in schema.get("items", schema).get("enum", ()) if value]
    if not all(value in text for value in values):
        text += f" One of {', '.join(values)}."
    if name.endswith("_seconds"):
        text += " For example 90s, 8h or 7d."
    if is_clearable(name, schema):
        text += " `none` for no value."
    if schema["type"] == "array":
        text += (
            " Can be repeated."
            if schema.get("minItems")
            else ' Can be repeated; "" for an empty list.'
        )
    return text


def sent(value: Any) -> Any:
    """Return what a request sends for the value of an option: of a list, texts with content."""
    if value is CLEARED:
        return None
    return [item for item in value if item] if isinstance(value, list) else value
