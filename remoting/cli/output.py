"""What every command prints: rows as a table, wide, as JSON or as YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.table import Table

from remoting.cli import api as rest

WIDE = 240
"""Columns of a table that goes into a pipe: nothing is cut."""
FORMATS = ("table", "wide", "json", "yaml")


def one_of_formats(value: str) -> str:
    if value not in FORMATS:
        raise typer.BadParameter(f"{value} is none of {', '.join(FORMATS)}.")
    return value


Output = Annotated[
    str, typer.Option("-o", "--output", help="table, wide, json or yaml", callback=one_of_formats, autocompletion=lambda: list(FORMATS))
]  # fmt: skip


def client() -> rest.Api:
    return rest.Api(rest.load_context())


def plain(answer: object, output: str) -> bool:
    """Prints it for a program; False when people want a table."""
    if output == "json":
        typer.echo(json.dumps(answer, indent=2))
    elif output == "yaml":
        typer.echo(yaml.safe_dump(answer, sort_keys=False, allow_unicode=True), nl=False)
    return output in ("json", "yaml")


def show(
    rows: list[dict[str, Any]], columns: Sequence[str], output: str, wide: Iterable[str] = ()
) -> None:
    """`wide`: columns that only `-o wide` has."""
    if not plain(rows, output):
        Console(width=None if sys.stdout.isatty() else WIDE).print(
            table_of(rows, [*columns, *(wide if output == "wide" else ())])
        )


def show_one(
    row: dict[str, Any], columns: Sequence[str], output: str, wide: Iterable[str] = ()
) -> None:
    if not plain(row, output):
        show([row], columns, output, wide)


def table_of(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> Table:
    table = Table(box=None, header_style="bold")
    for c in columns:
        heading = c.split(".")[-1].removesuffix("_bytes").replace("_", " ")
        table.add_column(heading, no_wrap=c in ("id", "uuid"), overflow="fold")
    for row in rows:
        table.add_row(*(cell(row, c) for c in columns))
    return table


def cell(row: dict[str, Any], column: str) -> str:
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "-"
    if column.endswith("_at"):
        return str(value)[:19].replace("T", " ")
    if any(part.endswith("_bytes") for part in column.split(".")):
        return f"{int(value) / (1 << 30):.2f} GiB"
    if isinstance(value, dict):
        return ",".join(f"{k}={v}" for k, v in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return str(value)
