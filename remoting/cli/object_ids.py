"""Objects as users name them: by id, by the first characters of an id, or by name.

A name stands for the objects that have not ended, if there are any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Annotated, Any

import typer

from remoting.cli.allocation_sizes import share_of_gpus
from remoting.cli.api import EXIT_CONFLICT, EXIT_DENIED, EXIT_NOT_FOUND, Api, ApiError
from remoting.cli.output import cell
from remoting.cli.prompts import has_terminal

Row = dict[str, Any]
AllocationName = Annotated[
    str, typer.Argument(help="Id of the allocation, 8 or more of its first characters, or a name.")
]
WHOLE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
BEGINNING = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE)
"""Ids are UUIDv7: shorter beginnings are those of many objects."""
NAMED = frozenset({"allocations", "projects", "reservations", "tokens"})
"""Collections with a filter by name."""
MAX_NAME_LENGTH = 100
MAX_CANDIDATES = 10
PAGE_SIZE = "500"
DESCRIBED_BY = (
    "name",
    "program",
    "kind",
    "role",
    "state",
    "owner",
    "user",
    "group",
    "project",
    "pool",
    "created_at",
)
"""Fields that tell candidates apart."""
COMMANDS = {"role-bindings": "role-binding", "audit": "audit", "gpus": "gpu"}
"""Commands that list a collection, if they are not named like its objects."""


def id_of(api: Api, collection: str, given: str, **filters: str) -> str:
    """Return the id of the object with this id, name or first characters of the id.

    `filters` hold for names and first characters. Raises ApiError if there is no such object, or
    more than one.
    """
    if WHOLE_ID.fullmatch(given):
        return given.lower()
    return str(found_row(api, collection, given, **filters)["id"])


def path_of(api: Api, collection: str, name: str) -> str:
    """Return the path of the object with this name. Raises ApiError if there is none."""
    return f"{collection}/{api.find_by_name(collection, name)['id']}"


def row_of(api: Api, collection: str, given: str) -> Row:
    """Return the object that `id_of` finds. Raises ApiError as it does."""
    return api.request("GET", f"{collection}/{id_of(api, collection, given)}")


def own_allocation(api: Api, given: str, action: str = "release") -> str:
    """Return the id of an allocation that is changed, as `id_of` does.

    An allocation of another user needs its whole id, or a confirmation in a terminal. Raises
    ApiError without one, or if this user may not change it.
    """
    if WHOLE_ID.fullmatch(given):
        return given.lower()
    row = found_row(api, "allocations", given)
    if row["owner"] != api.request("GET", "me")["username"]:
        text = f'"{given}" is an allocation of {row["owner"]}:\n  {described(row)}\n'
        if refusal := refusal_of(api, row["id"], action):
            raise ApiError(f"{text}{refusal}", EXIT_DENIED)
        if not has_terminal():
            raise ApiError(f"{text}Give its whole id to change it.", EXIT_CONFLICT)
        typer.confirm(f"{text}Change it?", abort=True, err=True)
    return str(row["id"])


def refusal_of(api: Api, allocation_id: str, action: str) -> str:
    """Return why this user may not change an allocation so; empty if they may."""
    actions = api.request("GET", f"allocations/{allocation_id}")["actions"]
    return next((a["reason"] or "" for a in actions if a["name"] == action), "")


def found_row(api: Api, collection: str, given: str, **filters: str) -> Row:
    found = with_name(api, collection, given, **filters)
    found = found or beginning_with(api, collection, given, **filters)
    if len(found) == 1:
        return found[0]
    singular = collection.removesuffix("s")
    if found:
        shared = "the name" if found[0].get("name") == given else "an id that begins with"
        raise ApiError(
            f'More than one {singular} has {shared} "{given}". Give more of the id:'
            + "".join(f"\n  {described(row)}" for row in found[:MAX_CANDIDATES])
            + ("\n  and more" if len(found) > MAX_CANDIDATES else ""),
            EXIT_CONFLICT,
        )
    by_id = "" if collection in NAMED else ": give its id, or 8 or more of its first characters"
    raise ApiError(
        f'{singular.capitalize()} "{given[:100]}" not found{by_id}. List them with:'
        f" busbar {COMMANDS.get(collection, singular)} list",
        EXIT_NOT_FOUND,
    )


def with_name(api: Api, collection: str, name: str, **filters: str) -> list[Row]:
    """Return objects with a name, those that have not ended if there are any.

    Returns one page for each query: there are too many ended allocations with one name.
    """
    if collection not in NAMED or not 0 < len(name) <= MAX_NAME_LENGTH:
        return []

    def page(**more: str) -> list[Row]:
        query = {"name": name, "limit": PAGE_SIZE} | filters | more
        rows: list[Row] = api.request("GET", collection, None, **query)["items"]
        return rows

    # An allocation may change its state between two queries.
    if found := {row["id"]: row for query in present(collection) for row in page(**query)}:
        return list(found.values())
    rows = page()
    return [row for row in rows if not has_ended(row)] or rows


def has_ended(row: Row) -> bool:
    expires_at = row.get("expires_at")
    return bool(row.get("ended_at") or (expires_at and expires_at < now()))


def now() -> str:
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


def present(collection: str) -> list[dict[str, str]]:
    """Return queries that select the objects that have not ended; none if there is no such filter.

    `expires_since` is none: tokens without an end do not match it.
    """
    states = ("queued", "preparing", "active", "suspended", "releasing")
    return {
        "allocations": [{"state": state} for state in states],
        "reservations": [{"ends_since": now()}],
    }.get(collection, [])


def beginning_with(api: Api, collection: str, text: str, **filters: str) -> list[Row]:
    """Return objects whose ids begin with a text, at most one more than MAX_CANDIDATES."""
    found: list[Row] = []
    if not BEGINNING.fullmatch(text):
        return found
    start = text.lower()
    for row in newest_first(api, collection, **filters):
        # Ids are UUIDv7, so the newest object has the largest id.
        if row["id"][: len(start)] < start or len(found) > MAX_CANDIDATES:
            break
        if row["id"].startswith(start):
            found.append(row)
    return found


def newest_first(api: Api, collection: str, **filters: str) -> Iterator[Row]:
    position: dict[str, str] = {}
    while True:
        page = api.request("GET", collection, None, limit=PAGE_SIZE, **filters, **position)
        yield from page["items"]
        if not page["next"]:
            return
        position = {"cursor": page["next"]}


def described(row: Row) -> str:
    facts = [cell(row, field) for field in DESCRIBED_BY if row.get(field)]
    size = [share_of_gpus(row)] if "percent" in row else []
    return "  ".join([row["id"], *facts, *size])
