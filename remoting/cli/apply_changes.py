"""Comparison of the objects of a file with those of the appliance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remoting.cli import api as rest
from remoting.cli.apply_file import Document
from remoting.cli.apply_kinds import KINDS, Row

Objects = Mapping[str, Mapping[tuple[Any, ...], Row]]
"""Objects of the appliance by kind and key."""
ONLY_FOR_CREATION = frozenset({"allow_pending"})
PRUNABLE = ("reservation", "quota", "pool", "project")
"""Kinds that `--prune` deletes, dependents first."""


@dataclass(frozen=True)
class Change:
    """An operation that a file needs, and the line that reports it."""

    method: str
    path: str
    body: Row | None
    report: str

    def operation(self) -> Row:
        """Return the operation for a bulk request."""
        return {"method": self.method, "path": self.path} | (
            {} if self.body is None else {"body": self.body}
        )


def read_objects(api: rest.Api, kinds: Sequence[str]) -> Objects:
    found = {}
    for name in dict.fromkeys(kinds):
        kind = KINDS[name]
        found[name] = {kind.key_of(row): row for row in api.items(kind.path)}
    return found


def compared(field: str, value: object) -> object:
    """Return a value as it is compared: an empty text or list is none, and 0 seconds are, too."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and not field.endswith("_seconds") else value or None


def change_for(document: Document, objects: Objects) -> Change | None:
    """Return the change that makes an object equal to its document; None if it is equal.

    Raises ApiError if the object is absent and cannot be created, or differs and cannot be
    changed.
    """
    kind, title = document.kind, document.title
    actual = objects[document.kind_name].get(kind.key_of(document.row))
    if actual is None:
        if not kind.creatable:
            raise rest.ApiError(
                f"{title} not found; `busbar apply` cannot create a {document.kind_name}.",
                rest.EXIT_NOT_FOUND,
            )
        return Change("POST", kind.path, document.row, f"{title}: created")
    different = {
        key: value
        for key, value in document.row.items()
        if key not in ONLY_FOR_CREATION and compared(key, value) != compared(key, actual.get(key))
    }
    if not different:
        return None
    if not kind.changeable:
        raise rest.ApiError(
            f"{title} exists with different values ({', '.join(different)}) and cannot be "
            "changed. Delete it first.",
            rest.EXIT_CONFLICT,
        )
    values = (f"{k} from {shown(actual.get(k))} to {shown(v)}" for k, v in different.items())
    report = f"{title}: changed {', '.join(values)}"
    return Change("PATCH", f"{kind.path}/{actual['id']}", different, report)


def shown(value: object) -> str:
    return "none" if value is None else str(value)


def deletions(
    documents: Sequence[Document], objects: Objects, labels: Mapping[str, str]
) -> list[Change]:
    """Return the deletions of objects that have the labels and are in no document.

    A quota has the labels of its project. A reservation has those of its project and its pool.
    """
    desired = {(d.kind_name, d.kind.key_of(d.row)) for d in documents}
    labelled = {
        kind: {row["name"] for row in objects[kind].values() if has_labels(row, labels)}
        for kind in ("project", "pool")
    }
    found = []
    for kind in PRUNABLE:
        for key, row in objects[kind].items():
            if (kind, key) not in desired and is_in_scope(kind, row, labelled):
                path, title = f"{KINDS[kind].path}/{row['id']}", KINDS[kind].name_of(row)
                found.append(Change("DELETE", path, None, f"{kind} {title}: removed"))
    return found


def has_labels(row: Row, labels: Mapping[str, str]) -> bool:
    return labels.items() <= (row.get("labels") or {}).items()


def is_in_scope(kind: str, row: Row, labelled: Mapping[str, set[str]]) -> bool:
    if kind == "quota":
        return row["subject_kind"] == "project" and row["subject"] in labelled["project"]
    if kind == "reservation":
        return row["project"] in labelled["project"] or row["pool"] in labelled["pool"]
    return row["name"] in labelled[kind]
