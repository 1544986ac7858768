"""Refusal of empty values for options that mean something else when they are left out.

A script that sets no value, as in `--project "$PROJECT"`, would get a role in the whole appliance.
"""

from __future__ import annotations

from typing import Any

from remoting.cli.errors import EXIT_USAGE, ApiError
from remoting.cli.option_words import shown_name

FREE_TEXTS = frozenset({"name", "text"})
"""Parameters for which an empty text is a value. Those with the default None are cleared by it."""


def refusing_empty_values(command: Any) -> Any:
    """Let a command, and all of a group, raise ApiError for empty values. Return it."""
    for sub in getattr(command, "commands", {}).values():
        refusing_empty_values(sub)
    for parameter in command.params:
        if parameter.default == "" and parameter.name not in FREE_TEXTS:
            parameter.callback = refusing_empty(parameter.callback)
    return command


def refusing_empty(callback: Any) -> Any:
    def check(context: Any, parameter: Any, value: Any) -> Any:
        is_given = context.get_parameter_source(parameter.name).name != "DEFAULT"
        if value == "" and is_given:
            text = f"{shown_name(parameter)} is empty. Give a value, or leave it out."
            raise ApiError(text, EXIT_USAGE)
        return callback(context, parameter, value) if callback else value

    return check
