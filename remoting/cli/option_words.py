"""Refusals of the appliance in the words of a command: its options instead of fields of REST."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from remoting.cli.errors import ApiError

FIELD = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")
"""A field in a sentence. Fields of one word are words of the language, too."""
OTHER_NAMES = {
    "addresses": "address",
    "compute_mode": "mode",
    "enabled": "enable",
    "enters_maintenance": "enter_maintenance",
    "fallbacks": "fallback",
    "limit_gpus": "limit",
    "mail_users": "mail_user",
    "memory_bytes": "memory",
    "min_cuda_version": "min_cuda",
    "min_driver_version": "min_driver",
    "name": "new_name",
    "networks": "network",
    "policies": "policy",
    "privileges": "privilege",
    "private_key": "key",
    "projects": "project",
    "quota_gpus": "quota",
    "reservation_id": "reservation",
    "scopes": "scope",
    "selector": "label",
    "states": "state",
    "username": "name",
}
"""Fields whose parameters have other names than `field` without the unit."""


def speaking_options(command: Any) -> Any:
    """Let a command, and all of a group, report refusals with their options. Return it."""
    for sub in getattr(command, "commands", {}).values():
        speaking_options(sub)
    if command.callback is not None:
        command.callback = translated(command.callback, command.params)
    return command


def translated(callback: Callable[..., Any], parameters: Iterable[Any]) -> Callable[..., Any]:
    names = {p.name: shown_name(p) for p in parameters}

    @wraps(callback)
    def run(*given: Any, **values: Any) -> Any:
        try:
            return callback(*given, **values)
        except ApiError as error:
            if error.fields:
                error.args = (in_options(str(error), error.fields, names),)
            raise

    return run


def shown_name(parameter: Any) -> str:
    """Return the long name of an option, or the name of an argument as the help shows it."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(next((o for o in parameter.opts if o.startswith("--")), parameter.opts[0]))


def in_options(text: str, problem: dict[str, Any], names: dict[str, str]) -> str:
    """Return the text of a refusal, with the options of `names` instead of fields."""
    if errors := problem.get("errors"):
        return "\n".join(f"{place_of(e['pointer'], names)}: {e['message']}" for e in errors)
    return FIELD.sub(lambda found: option_of(found[0], names) or found[0], text)


def place_of(pointer: str, names: dict[str, str]) -> str:
    """Return the option of a JSON pointer, or the names in it."""
    field, *rest = pointer.removeprefix("/").split("/")
    return option_of(field, names) or ".".join([field or "The request", *rest])


def option_of(field: str, names: dict[str, str]) -> str | None:
    """Return the option that sets a field. `NAME` of `set` is that of the object as it was."""
    return names.get(parameter_of(field)) or names.get(field)


def parameter_of(field: str) -> str:
    """Return the name of the parameter that sets a field."""
    return OTHER_NAMES.get(field, field.removesuffix("_seconds"))
