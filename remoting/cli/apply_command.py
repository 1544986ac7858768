"""The command `busbar apply -f FILE`: creates and updates objects to match a file. Idempotent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from remoting.cli import api as rest
from remoting.cli.output import client

Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of object in an apply file: its collection and the permitted operations."""

    path: str
    key: tuple[str, ...]
    """Fields that identify an object."""
    creatable: bool = True
    changeable: bool = True


KINDS = {
    "department": Kind("departments", ("name",), changeable=False),
    "project": Kind("projects", ("name",)),
    "pool": Kind("pools", ("name",)),
    "quota": Kind("quotas", ("subject_kind", "subject")),
    "reservation": Kind("reservations", ("name",), changeable=False),
    "site": Kind("sites", ("name",)),
    "node": Kind("nodes", ("name",), creatable=False),
    "gpu": Kind("gpus", ("node", "index"), creatable=False),
}
"""In order of creation: pools refer to projects, nodes refer to sites."""


def documents(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield kind and fields of each document. Raises ApiError for an invalid document."""
    try:
        found = list(yaml.safe_load_all(path.read_text()))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise rest.ApiError(f"{path} cannot be read: {error}", rest.EXIT_USAGE) from None
    for n, given in enumerate(d for d in found if d is not None):
        kind = given.get("kind") if isinstance(given, dict) else None
        if kind not in KINDS:
            raise rest.ApiError(
                f"Document {n + 1} of {path}: kind must be one of {', '.join(KINDS)}.",
                rest.EXIT_USAGE,
            )
        row = {key: value for key, value in given.items() if key != "kind"}
        if missing := [key for key in KINDS[kind].key if key not in row]:
            raise rest.ApiError(
                f"Document {n + 1} of {path} ({kind}): missing {', '.join(missing)}.",
                rest.EXIT_USAGE,
            )
        yield kind, row


def to_json_value(value: object) -> object:
    """Return a datetime (YAML parses timestamps) as ISO 8601 text, any other value unchanged."""
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def equal_values(desired: object, actual: object) -> bool:
    """Compare values independent of their notation: 1 equals 1.0, empty equals absent."""
    desired = to_json_value(desired)
    if isinstance(desired, int | float) and isinstance(actual, int | float):
        return float(desired) == float(actual)
    return (desired or None) == (actual or None)


def apply_one(
    api: rest.Api,
    kind: str,
    desired: Row,
    actual: Row | None,
    report: Callable[[str], None],
    dry_run: dict[str, str],
) -> bool:
    """Create or update one object. Return True if it changed. Calls `report` with one line.

    Raises:
        ApiError: the object is absent and cannot be created, or differs and cannot be changed.
    """
    known, name = KINDS[kind], " ".join(str(desired[key]) for key in KINDS[kind].key)
    body = {key: to_json_value(value) for key, value in desired.items()}
    if actual is None:
        if not known.creatable:
            raise rest.ApiError(
                f'{kind} "{name}" not found; `busbar apply` cannot create a {kind}.',
                rest.EXIT_NOT_FOUND,
            )
        api.request("POST", known.path, body, **dry_run)
        report(f"{kind} {name}: created")
        return True
    different = {
        key: value for key, value in body.items() if not equal_values(desired[key], actual.get(key))
    }
    if not different:
        report(f"{kind} {name}: unchanged")
        return False
    if not known.changeable:
        raise rest.ApiError(
            f'{kind} "{name}" exists with different values ({", ".join(different)}) and cannot '
            "be changed. Delete it first.",
            rest.EXIT_CONFLICT,
        )
    api.request("PATCH", f"{known.path}/{actual['id']}", different, **dry_run)
    report(
        f"{kind} {name}: changed "
        + ", ".join(f"{key} from {actual.get(key)} to {value}" for key, value in different.items())
    )
    return True


def apply(
    file: Annotated[
        Path,
        typer.Option(
            "-f",
            "--file",
            help="YAML file. Separate documents with ---.",
            exists=True,
            dir_okay=False,
        ),
    ],
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Validate and print the changes without making them."),
    ] = False,
) -> None:
    """Create and update objects to match a YAML file. Objects that match are not changed."""
    api, order = client(), list(KINDS)
    desired = sorted(documents(file), key=lambda document: order.index(document[0]))
    actual: dict[str, dict[tuple[Any, ...], Row]] = {}
    query = {"dry_run": "true"} if dry_run else {}
    changed = 0
    for kind, row in desired:
        known = KINDS[kind]
        if kind not in actual:
            actual[kind] = {tuple(r[key] for key in known.key): r for r in api.items(known.path)}
        existing = actual[kind].get(tuple(row[key] for key in known.key))
        changed += apply_one(api, kind, row, existing, typer.echo, query)
    typer.echo(f"{changed} of {len(desired)} {'would change' if dry_run else 'changed'}.")
