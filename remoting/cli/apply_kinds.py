"""Kinds of objects in files of `busbar apply`, and the JSON schema of a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from remoting.cli.api_fields import Schema, fields_of, required_of

Row = dict[str, Any]
KEYS: dict[str, Schema] = {
    "name": {"type": "string", "description": "Name."},
    "node": {"type": "string", "description": "Name of the node."},
    "index": {"type": "integer", "minimum": 0, "description": "Index of the GPU on its node."},
}
"""Fields that identify an object, and that no request sets."""


@dataclass(frozen=True)
class Kind:
    """A kind of object: its collection, the permitted operations and its fields."""

    path: str
    key: tuple[str, ...] = ("name",)
    """Fields that identify an object."""
    without: tuple[str, ...] = ()
    """Fields that requests set and documents do not have, because no response shows them."""
    creatable: bool = True
    changeable: bool = True

    @property
    def fields(self) -> dict[str, Schema]:
        sent = fields_of(self.path, *self.without)
        return {name: sent.get(name) or KEYS[name] for name in self.key} | sent

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in self.key)

    def name_of(self, row: Row) -> str:
        return " ".join(str(row[name]) for name in self.key)


KINDS = {
    "department": Kind("departments", changeable=False),
    "project": Kind("projects"),
    "pool": Kind("pools"),
    "quota": Kind("quotas", key=("subject_kind", "subject")),
    "reservation": Kind("reservations", changeable=False),
    "site": Kind("sites"),
    "node": Kind("nodes", without=("networks",), creatable=False),
    "gpu": Kind("gpus", key=("node", "index"), creatable=False),
    "alarm-definition": Kind("alarm-definitions", without=("webhook_secret",)),
}
"""In order of creation: pools refer to projects, nodes to sites, alarm definitions to all."""


def json_schema() -> Schema:
    """Return the schema of one document, for editors and other programs (JSON Schema 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A document of busbar apply",
        "oneOf": [document_schema(name, kind) for name, kind in KINDS.items()],
    }


def document_schema(name: str, kind: Kind) -> Schema:
    needed = dict.fromkeys(["kind", *kind.key, *required_of(kind.path)])
    return {
        "type": "object",
        "title": name,
        "required": list(needed),
        "properties": {"kind": {"const": name}, **kind.fields},
        "additionalProperties": False,
    }
