"""What every command prints: rows as a table or as JSON."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from remoting.cli import api as rest

WIDE = 240
"""Columns of a table that goes into a pipe: nothing is cut."""

Output = Annotated[str, typer.Option("-o", "--output", help="table or json")]


def client() -> rest.Api:
    return rest.Api(rest.load_context())


def show(rows: list[dict[str, Any]], columns: list[str], output: str) -> None:
    if output == "json":
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(box=None, header_style="bold")
    for c in columns:
        heading = c.split(".")[-1].removesuffix("_bytes").replace("_", " ")
        table.add_column(heading, no_wrap=c in ("id", "uuid"), overflow="fold")
    for row in rows:
        table.add_row(*(cell(row, c) for c in columns))
    Console(width=None if sys.stdout.isatty() else WIDE).print(table)


def cell(row: dict[str, Any], column: str) -> str:
    value: Any = row
    for part in column.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "-"
    if column.endswith("_at"):
        return str(value)[:19].replace("T", " ")
    if column.endswith("_bytes"):
        return f"{int(value) / (1 << 30):.2f} GiB"
    return str(value)
