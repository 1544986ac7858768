"""`busbar apply -f FILE`: makes sites, pools, quotas, projects, departments, reservations and labels as a file says. A second time changes nothing."""

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
    path: str
    key: tuple[str, ...]
    """Fields by which an object is known."""
    creates: bool = True
    changes: bool = True


KINDS = {
    "department": Kind("departments", ("name",), changes=False),
    "project": Kind("projects", ("name",)),
    "pool": Kind("pools", ("name",)),
    "quota": Kind("quotas", ("subject_kind", "subject")),
    "reservation": Kind("reservations", ("name",), changes=False),
    "site": Kind("sites", ("name",)),
    "node": Kind("nodes", ("name",), creates=False),
    "gpu": Kind("gpus", ("node", "index"), creates=False),
}
"""In the order in which they are made: pools name projects, nodes name sites."""


def documents(path: Path) -> Iterator[tuple[str, Row]]:
    """Kind and fields of each; raises ApiError for what cannot be one."""
    try:
        found = list(yaml.safe_load_all(path.read_text()))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise rest.ApiError(f"{path} cannot be read: {error}", rest.EXIT_USAGE) from None
    for n, given in enumerate(d for d in found if d is not None):
        kind = given.get("kind") if isinstance(given, dict) else None
        if kind not in KINDS:
            raise rest.ApiError(
                f"Document {n + 1} of {path} needs a kind: one of {', '.join(KINDS)}.",
                rest.EXIT_USAGE,
            )
        row = {key: value for key, value in given.items() if key != "kind"}
        if missing := [key for key in KINDS[kind].key if key not in row]:
            raise rest.ApiError(
                f"Document {n + 1} of {path}, a {kind}, lacks {', '.join(missing)}.",
                rest.EXIT_USAGE,
            )
        yield kind, row


def as_sent(value: object) -> object:
    """YAML makes times of what looks like one."""
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def same(wanted: object, now: object) -> bool:
    """Times and numbers may be written in several ways."""
    wanted = as_sent(wanted)
    if isinstance(wanted, int | float) and isinstance(now, int | float):
        return float(wanted) == float(now)
    return (wanted or None) == (now or None)


def apply_one(
    api: rest.Api,
    kind: str,
    wanted: Row,
    now: Row | None,
    say: Callable[[str], None],
    dry: dict[str, str],
) -> bool:
    """True when something had to change."""
    known, name = KINDS[kind], " ".join(str(wanted[key]) for key in KINDS[kind].key)
    body = {key: as_sent(value) for key, value in wanted.items()}
    if now is None:
        if not known.creates:
            raise rest.ApiError(
                f"There is no {kind} {name}; it must be there before it can be changed.",
                rest.EXIT_NOT_FOUND,
            )
        api.request("POST", known.path, body, **dry)
        say(f"{kind} {name}: created")
        return True
    different = {key: value for key, value in body.items() if not same(wanted[key], now.get(key))}
    if not different:
        say(f"{kind} {name}: unchanged")
        return False
    if not known.changes:
        raise rest.ApiError(
            f"The {kind} {name} is there with another {', '.join(different)}; delete it first.",
            rest.EXIT_CONFLICT,
        )
    api.request("PATCH", f"{known.path}/{now['id']}", different, **dry)
    say(
        f"{kind} {name}: changed "
        + ", ".join(f"{key} from {now.get(key)} to {value}" for key, value in different.items())
    )
    return True


def apply(
    file: Annotated[
        Path,
        typer.Option(
            "-f",
            "--file",
            help="YAML; several documents with --- between them",
            exists=True,
            dir_okay=False,
        ),
    ],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="say what would change, and whether it could; change nothing"
        ),
    ] = False,
) -> None:
    """Makes things as a file says; what is that way already stays untouched."""
    api, order = client(), list(KINDS)
    wanted = sorted(documents(file), key=lambda document: order.index(document[0]))
    there: dict[str, dict[tuple[Any, ...], Row]] = {}
    changed = 0
    for kind, row in wanted:
        known = KINDS[kind]
        if kind not in there:
            there[kind] = {tuple(r[key] for key in known.key): r for r in api.items(known.path)}
        now = there[kind].get(tuple(row[key] for key in known.key))
        changed += apply_one(
            api, kind, row, now, typer.echo, {"dry_run": "true"} if dry_run else {}
        )
    typer.echo(f"{changed} of {len(wanted)} {'would change' if dry_run else 'changed'}.")
