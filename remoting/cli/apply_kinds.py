"""Kinds of objects in files of `busbar apply`, and the JSON schema of a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
Schema = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of object: its collection, the permitted operations and its fields."""

    path: str
    key: tuple[str, ...]
    """Fields that identify an object."""
    fields: dict[str, Schema]
    creatable: bool = True
    changeable: bool = True
    required: tuple[str, ...] = ()
    """Fields that a new object needs besides its key."""

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in self.key)

    def name_of(self, row: Row) -> str:
        return " ".join(str(row[name]) for name in self.key)


def text(description: str) -> Schema:
    return {"type": "string", "description": description}


def texts(description: str, **rules: Any) -> Schema:
    return {"type": "array", "items": {"type": "string", **rules}, "description": description}


def number(description: str, **rules: Any) -> Schema:
    return {"type": "number", "description": description, **rules}


def whole(description: str, **rules: Any) -> Schema:
    return {"type": "integer", "description": description, **rules}


def truth(description: str) -> Schema:
    return {"type": "boolean", "description": description}


NAME = text("Name.")
NOTES = text("Notes of the operators.")
LABELS: Schema = {
    "type": "object",
    "additionalProperties": {"type": "string"},
    "description": "Labels by key.",
}
GPUS = {"type": ["number", "null"], "minimum": 0}
PLACE: Schema = {"type": ["string", "null"]}
TIME = {"type": "string", "format": "date-time"}
KINDS = {
    "department": Kind("departments", ("name",), {"name": NAME}, changeable=False),
    "project": Kind(
        "projects",
        ("name",),
        {"name": NAME, "department": text("Name of the department."), "labels": LABELS},
    ),
    "pool": Kind(
        "pools",
        ("name",),
        {
            "name": NAME,
            "labels": LABELS,
            "policies": texts(
                "Placement policies, in order of precedence.",
                enum=["pack", "spread", "model_affinity", "exclusive"],
            ),
            "fallbacks": texts("Names of the pools to try after this one."),
            "max_lifetime_seconds": whole("Longest lifetime; 0 for no limit.", minimum=0),
            "max_idle_seconds": whole("Longest time without a launch; 0: no limit.", minimum=0),
            "max_late_seconds": whole("Longest time of late work; 0: no limit.", minimum=0),
            "network": text("Network whose addresses clients use first."),
            "admit_new_gpus": truth("GPUs that nodes report later join by themselves."),
            "required_isolation": {
                "enum": ["any", "process", "namespaces", "full"],
                "description": "Isolation that nodes need for new allocations.",
            },
            "projects": texts("Names of the projects that may use the pool; empty for all."),
        },
    ),
    "quota": Kind(
        "quotas",
        ("subject_kind", "subject"),
        {
            "subject_kind": {"enum": ["user", "project", "department"]},
            "subject": text("Name of the user, project or department."),
            "quota_gpus": {**GPUS, "description": "Guaranteed number of GPUs."},
            "limit_gpus": {**GPUS, "description": "Largest number of GPUs."},
            "borrows": truth("May exceed the quota while capacity is idle."),
            "weight": number("Share of idle capacity.", minimum=0.01, maximum=1000),
        },
    ),
    "reservation": Kind(
        "reservations",
        ("name",),
        {
            "name": NAME,
            "pool": text("Name of the pool."),
            "project": text("Name of the project."),
            "gpu_count": whole("Number of GPUs.", minimum=1, maximum=1024),
            "percent": whole("Share of each GPU.", minimum=1, maximum=100),
            "starts_at": {**TIME, "description": "Start, with a zone."},
            "ends_at": {**TIME, "description": "End, with a zone."},
            "allow_pending": truth("Accept more than the registered capacity."),
        },
        changeable=False,
        required=("pool", "project", "gpu_count", "starts_at", "ends_at"),
    ),
    "site": Kind("sites", ("name",), {"name": NAME, "notes": NOTES}),
    "node": Kind(
        "nodes",
        ("name",),
        {
            "name": NAME,
            "labels": LABELS,
            "notes": NOTES,
            "site": text("Name of the site; empty for none."),
        },
        creatable=False,
    ),
    "gpu": Kind(
        "gpus",
        ("node", "index"),
        {
            "node": text("Name of the node."),
            "index": whole("Index of the GPU on its node.", minimum=0),
            "labels": LABELS,
            "notes": NOTES,
            "pool": text("Name of the pool; empty for none."),
        },
        creatable=False,
    ),
    "alarm-definition": Kind(
        "alarm-definitions",
        ("name",),
        {
            "name": NAME,
            "notes": NOTES,
            "enabled": truth("Whether it is evaluated."),
            "severity": {"enum": ["info", "warning", "critical"]},
            "object_kind": {"enum": ["appliance", "node", "gpu", "allocation"]},
            "condition": {
                "enum": [
                    "state",
                    "metric",
                    "event",
                    "xid",
                    "certificate_age",
                    "queue_wait",
                    "idle_held",
                ]
            },
            "states": texts("States that raise it."),
            "metric": text("Name of the metric."),
            "comparison": {"enum": ["above", "below"]},
            "threshold": {"type": ["number", "null"], "description": "Limit."},
            "clear_threshold": {"type": ["number", "null"], "description": "Limit to clear."},
            "event_kind": text("Kind of the events."),
            "xid_class": {"enum": ["", "memory", "bus", "engine", "application", "any"]},
            "window_seconds": whole("Period in which events are counted.", minimum=0),
            "raise_after_seconds": whole("How long the condition must hold.", minimum=0),
            "clear_after_seconds": whole("How long it must not hold.", minimum=0),
            "site": {**PLACE, "description": "Name of the site for which it holds."},
            "node": {**PLACE, "description": "Name of the node for which it holds."},
            "gpu": {**PLACE, "description": "Node and index of the GPU for which it holds."},
            "pool": {**PLACE, "description": "Name of the pool for which it holds."},
            "mail_users": texts("Names of users who get a mail."),
            "webhook_url": text("Address that gets a POST."),
            "script": text("Name of a script on the appliance."),
            "enters_maintenance": truth("Whether the node is set into maintenance."),
        },
        required=("severity", "object_kind", "condition"),
    ),
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
    return {
        "type": "object",
        "title": name,
        "required": ["kind", *kind.key, *kind.required],
        "properties": {"kind": {"const": name}, **kind.fields},
        "additionalProperties": False,
    }
