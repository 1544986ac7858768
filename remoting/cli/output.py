"""Output of the commands: tables, wide tables, JSON or YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from remoting.cli import api as rest

PIPE_WIDTH = 240
"""Width in columns of a table written to a pipe, so that no cell is truncated."""
FORMATS = ("table", "wide", "json", "yaml")


def validate_format(value: str) -> str:
    """Return the value. Raises BadParameter if it is not an output format."""
    if value not in FORMATS:
        raise typer.BadParameter(f"Invalid format {value}; expected one of: {', '.join(FORMATS)}.")
    return value


Output = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        help="Output format: table, wide, json or yaml.",
        callback=validate_format,
        autocompletion=lambda: list(FORMATS),
    ),
]


def client() -> rest.Api:
    """Return a connection to the appliance of the stored context. Raises ApiError without one."""
    return rest.Api(rest.load_context())


def print_structured(content: object, output: str) -> bool:
    """Print the content as JSON or YAML. Return False for a table format, without output."""
    if output == "json":
        typer.echo(json.dumps(content, indent=2))
    elif output == "yaml":
        import yaml

        typer.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), nl=False)
    return output in ("json", "yaml")


def show(
    rows: list[dict[str, Any]], columns: Sequence[str], output: str, wide: Iterable[str] = ()
) -> None:
    """Print rows. `wide` lists the columns that only `-o wide` adds."""
    if not print_structured(rows, output):
        Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(
            table_of(rows, [*columns, *(wide if output == "wide" else ())])
        )


def show_one(
    row: dict[str, Any], columns: Sequence[str], output: str, wide: Iterable[str] = ()
) -> None:
    """Print one object: a single one in JSON and YAML, a table with one row otherwise."""
    if not print_structured(row, output):
        show([row], columns, output, wide)


def table_of(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> Table:
    """Return a table. A dotted column name selects a nested field.

    Cells are `Text`: rich would take brackets in a string for its markup.
    """
    table = Table(box=None, header_style="bold")
    for c, heading in zip(columns, headings_of(columns), strict=True):
        table.add_column(heading, no_wrap=c in ("id", "uuid"), overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(row, c)) for c in columns))
    return table


def headings_of(columns: Sequence[str]) -> list[str]:
    """Return the last names of nested fields; with the names above them if they are ambiguous."""
    paths = [[n.removesuffix("_bytes").replace("_", " ") for n in c.split(".")] for c in columns]
    last = [path[-1] for path in paths]
    return last if len(set(last)) == len(last) else [" ".join(path) for path in paths]


def size_text(size_bytes: int) -> str:
    """Return a size in the largest unit of which it has at least one."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.2f} {name}"
    return f"{size_bytes} B"


def cell(row: dict[str, Any], column: str) -> str:
    """Return the text of a field; times to the second, byte sizes with a unit."""
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:  # the appliance does not name a node that the user may not view
        is_hidden = column == "duplicate_of_node" and row.get("duplicate_of")
        return "another node" if is_hidden else "-"
    if column.endswith("_at"):
        return str(value)[:19].replace("T", " ")
    if any(part.endswith("_bytes") for part in column.split(".")):
        return size_text(int(value))
    if isinstance(value, dict):
        return ",".join(f"{k}={v}" for k, v in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)
