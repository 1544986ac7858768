"""Labels in command lines: filters, changes and requirements."""

from __future__ import annotations

from typing import Annotated

import typer

from remoting.cli import api as rest

Labels = Annotated[list[str], typer.Argument(help="KEY=VALUE to set, KEY- to remove.")]
LabelFilter = Annotated[
    str,
    typer.Option(
        "-l",
        "--labels",
        help="Label selector: KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B), KEY, !KEY; "
        "separated by commas.",
    ),
]


def apply_label_changes(current: dict[str, str], changes: list[str]) -> dict[str, str]:
    """Return the labels after KEY=VALUE (set) and KEY- (remove) changes.

    Raises:
        ApiError: a change has neither form.
    """
    labels = dict(current)
    for text in changes:
        key, equals, value = text.partition("=")
        if equals and key:
            labels[key] = value
        elif text.endswith("-") and len(text) > 1:
            labels.pop(text[:-1], None)
        else:
            raise rest.ApiError(
                f"Invalid label change {text}; expected KEY=VALUE or KEY-.", rest.EXIT_USAGE
            )
    return labels


def parse_labels(arguments: list[str]) -> dict[str, str]:
    """Return the labels of KEY=VALUE arguments. Raises ApiError for any other form."""
    for argument in arguments:
        if "=" not in argument:
            raise rest.ApiError(f"Invalid label {argument}; expected KEY=VALUE.", rest.EXIT_USAGE)
    return dict(argument.split("=", 1) for argument in arguments)
