"""Objects as users name them: by id, by the first characters of an id, or by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from remoting.cli.api import EXIT_CONFLICT, EXIT_NOT_FOUND, Api, ApiError

Row = dict[str, Any]
AllocationName = Annotated[
    str, typer.Argument(help="Id of the allocation, its first characters, or a name.")
]
WHOLE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
BEGINNING = re.compile(r"[0-9a-f][0-9a-f-]{0,35}", re.IGNORECASE)
NAMED = frozenset({"allocations", "projects", "reservations", "tokens"})
"""Collections with a filter by name."""
MAX_NAME_LENGTH = 100
MAX_CANDIDATES = 10
PAGE_SIZE = "500"
DESCRIBED_BY = ("name", "program", "kind", "role", "state", "owner", "user", "created_at")
"""Fields that tell candidates apart."""
COMMANDS = {"role-bindings": "role-binding", "audit": "audit", "gpus": "gpu"}
"""Commands that list a collection, if they are not named like its objects."""


def id_of(api: Api, collection: str, given: str) -> str:
    """Return the id of the object with this id, name or first characters of the id.

    A name of several allocations stands for those that have not ended, if there are any. Raises
    ApiError if there is no such object, or more than one.
    """
    if WHOLE_ID.fullmatch(given):
        return given.lower()
    found = with_name(api, collection, given) or beginning_with(api, collection, given)
    if len(found) == 1:
        return str(found[0]["id"])
    singular = collection.removesuffix("s")
    if found:
        raise ApiError(
            f'"{given}" is not the only {singular} of this name or id. Give more of the id:'
            + "".join(f"\n  {described(row)}" for row in found[:MAX_CANDIDATES])
            + ("\n  and more" if len(found) > MAX_CANDIDATES else ""),
            EXIT_CONFLICT,
        )
    raise ApiError(
        f'{singular.capitalize()} "{given[:100]}" not found. List them with:'
        f" busbar {COMMANDS.get(collection, singular)} list",
        EXIT_NOT_FOUND,
    )


def with_name(api: Api, collection: str, name: str) -> list[Row]:
    if collection not in NAMED or not 0 < len(name) <= MAX_NAME_LENGTH:
        return []
    rows = api.items(collection, name=name, limit=PAGE_SIZE)
    return [row for row in rows if not row.get("ended_at")] or rows


def beginning_with(api: Api, collection: str, text: str) -> list[Row]:
    """Return objects whose ids begin with a text, at most one more than MAX_CANDIDATES."""
    found: list[Row] = []
    if not BEGINNING.fullmatch(text):
        return found
    start = text.lower()
    for row in newest_first(api, collection):
        # Ids are UUIDv7, so the newest object has the largest id.
        if row["id"][: len(start)] < start or len(found) > MAX_CANDIDATES:
            break
        if row["id"].startswith(start):
            found.append(row)
    return found


def newest_first(api: Api, collection: str) -> Iterator[Row]:
    position: dict[str, str] = {}
    while True:
        page = api.request("GET", collection, None, limit=PAGE_SIZE, **position)
        yield from page["items"]
        if not page["next"]:
            return
        position = {"cursor": page["next"]}


def described(row: Row) -> str:
    facts = [str(row[field]) for field in DESCRIBED_BY if row.get(field)]
    return "  ".join([row["id"], *facts])
