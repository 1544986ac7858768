"""The operations of the OpenAPI document, with ids, filters and bodies that name chemistry."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from deploy.supervisor import ROOT
from tests.system.department.chemistry import NAME, OWNER, RESERVATION, Chemistry

STREAMS = {"watch", "feed"}
FOR_ALL = {"sites", "nodes", "gpus", "pools", "departments", "roles", "bundles"}
"""Collections whose objects people of several projects see."""
SHARES = {"partition", "partitions", "gpu", "gpus", "node", "nodes"}
"""Kinds that show the id of an allocation and its share to all who see the node."""
FILTERS = {
    "project": "chemistry",
    "subject": "chemistry",
    "owner": OWNER,
    "user": OWNER,
    "username": OWNER,
    "initiator": OWNER,
    "actor": OWNER,
    "group": "chemists",
    "object_name": NAME,
}
"""Values of filters that select what belongs to chemistry."""
NAMES = {"projects": "chemistry", "groups": "chemists", "reservations": RESERVATION}
"""Values of the filter `name`; allocations otherwise."""


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    """Below /api/v1/, with {parameters}."""
    filters: tuple[str, ...]
    body: Any = field(compare=False, default=None)

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"\{(\w+)\}", self.path)

    @property
    def collection(self) -> str:
        return self.path.partition("/")[0]

    def path_in(self, chemistry: Chemistry) -> str | None:
        """Return the path with the ids of chemistry, or None if it has no such object."""
        path = self.path
        for name in self.parameters:
            own = chemistry.object_ids.get(self.collection) if name == "object_id" else None
            value = own or chemistry.ids.get(name)
            if value is None:
                return None
            path = path.replace("{" + name + "}", value)
        return path

    def queries(self, chemistry: Chemistry) -> Iterator[dict[str, str]]:
        """Yield queries of a list: all, and by each filter that can select chemistry."""
        yield {}
        if "count" in self.filters:
            yield {"count": "true", "limit": "500"}
        for name in self.filters:
            value = self.filter_value(name, chemistry)
            if value is not None:
                yield {name: value}

    def filter_value(self, name: str, chemistry: Chemistry) -> str | None:
        if name == "name":
            return NAMES.get(self.collection, NAME)
        if name == "path":
            return f"allocations/{chemistry.ids['allocation_id']}"
        if name == "object":
            return f"allocations/{chemistry.ids['allocation_id']}"
        if name in ("object_id", "subject_id", "parent_id"):
            ids = {"subject_id": "project_id", "parent_id": "task_id"}
            return chemistry.ids[ids.get(name, "allocation_id")]
        return FILTERS.get(name, chemistry.ids.get(name))


def operations() -> list[Operation]:
    """Return all operations but streams and sign-ins."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load((ROOT / "docs" / "openapi.yaml").read_text(), Loader=loader)
    return [
        Operation(
            method.upper(),
            path.removeprefix("/api/v1/"),
            tuple(p["name"] for p in described.get("parameters", ()) if p["in"] == "query"),
            example_of(described),
        )
        for path, methods in document["paths"].items()
        for method, described in methods.items()
        if path.removeprefix("/api/v1/") not in STREAMS
    ]


def example_of(described: dict[str, Any]) -> Any:
    """Return the example of the request body, or None."""
    content = described.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = list(content.get("examples", {}).values())
    return examples[0]["value"] if examples else content.get("example")


def changes_of(chemistry: Chemistry) -> list[tuple[str, str, Any]]:
    """Return method, path and body of each change of an object of chemistry."""
    found: list[tuple[str, str, Any]] = []
    for operation in operations():
        path = operation.path_in(chemistry)
        if operation.method != "GET" and operation.parameters and path is not None:
            found.append((operation.method, path, operation.body))
    return found + takings(chemistry)


def takings(chemistry: Chemistry) -> list[tuple[str, str, Any]]:
    """Return requests that would take what belongs to chemistry, or a part in it."""
    period = {"starts_at": "2099-01-01T08:00:00Z", "ends_at": "2099-01-01T09:00:00Z"}
    reservation = {"name": "x", "pool": "default", "gpu_count": 1, "project": "chemistry"}
    quota = {"subject_kind": "user", "subject": OWNER, "quota_gpus": 1}
    return [
        ("POST", "allocations", {"percent": 5, "project": "chemistry"}),
        (
            "POST",
            "allocations",
            {"percent": 5, "project": "physics", "reservation_id": chemistry.ids["reservation_id"]},
        ),
        ("POST", "reservations", reservation | period),
        ("POST", "quotas", quota),
        ("POST", "role-bindings", {"user": "ben", "role": "user", "project": "chemistry"}),
        ("POST", "role-bindings", {"user": "ben", "role": "user", "department": "science"}),
        ("POST", "role-bindings", {"group": "physicists", "role": "viewer"}),
        ("POST", "tokens", {"name": "x", "user": OWNER}),
        ("POST", f"groups/{chemistry.ids['group_id']}/members", {"user": "ben"}),
    ]
