"""Sheets: one object for people, with its fields and tables of related objects."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from remoting.cli import api as rest
from remoting.cli.output import PIPE_WIDTH, cell, print_structured, table_of

Row = dict[str, Any]
MAX_RELATED = 10
"""Rows of a table of related objects; the last line tells how many more there are."""


@dataclass(frozen=True)
class Related:
    """A table of related objects. `rows` runs when the sheet is printed."""

    heading: str
    columns: Sequence[str]
    rows: Callable[[], Iterable[Row]]


def page(api: rest.Api, path: str, **filters: str) -> list[Row]:
    """Return the newest rows of a collection, with one row more than a sheet shows.

    A filter without a value matches nothing.
    """
    if "" in filters.values():
        return []
    rows: list[Row] = api.request("GET", path, None, limit=str(MAX_RELATED + 1), **filters)["items"]
    return rows


def print_sheet(
    title: str, row: Row, fields: Sequence[str], related: Sequence[Related], output: str
) -> None:
    """Print an object. JSON and YAML have the object as REST returns it."""
    if print_structured(row, output):
        return
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)
    console.print(Text(title, style="bold"))
    console.print(facts(row, fields))
    for one in related:
        print_related(console, one)


def facts(row: Row, fields: Sequence[str]) -> Table:
    """Return the fields of an object, one a line. Fields without a value are left out."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name in fields:
        if (text := cell(row, name)) not in ("-", ""):
            table.add_row(f"  {label(name)}", Text(text))
    return table


def label(field: str) -> str:
    words = (
        field.rsplit(".", maxsplit=1)[-1]
        .removesuffix("_bytes")
        .removesuffix("_at")
        .replace("_", " ")
    )
    return words[:1].upper() + words[1:]


def print_related(console: Console, related: Related) -> None:
    """Print a table, or that there is nothing, or that the user may not see it."""
    console.print()
    console.print(Text(related.heading, style="bold"))
    try:
        rows = list(related.rows())
    except rest.ApplianceUnreachable:
        raise
    except rest.ApiError as error:
        console.print(Text(f"  {reason(error)}", style="dim"))
        return
    if not rows:
        console.print(Text("  none", style="dim"))
        return
    console.print(table_of(rows[:MAX_RELATED], related.columns))
    if len(rows) > MAX_RELATED:
        console.print(Text("  and more", style="dim"))


def reason(error: rest.ApiError) -> str:
    return "not visible to you" if error.exit_code == rest.EXIT_DENIED else str(error)
