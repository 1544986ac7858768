"""The fields that requests set, from docs/openapi.yaml.

Clients take the names, types, limits and descriptions of their options from them: the command
`busbar` at run time, from busbar_client/fields.json, and the modules of Ansible when the collection
is built.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

PREFIX = "/api/v1/"
KEPT = ("type", "format", "enum", "minimum", "maximum", "minItems", "default", "writeOnly")
"""Keywords of a field's schema that clients get. Only the appliance checks lengths and patterns."""
LISTED_VALUES = re.compile(r"(^|\n\n)\* `.*", re.DOTALL)
"""The list of values that drf-spectacular adds to a description."""
Json = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """The fields of the objects of a collection."""

    fields: dict[str, Json]
    """Those that requests set, as JSON schemas without references."""
    required: tuple[str, ...]
    """Those that a new object needs."""
    created: frozenset[str]
    """Those that POST takes."""
    changed: frozenset[str]
    """Those that PATCH takes."""
    shown: frozenset[str]
    """Those that responses have."""


def forms(document: Json) -> dict[str, Form]:
    """Return the form of each collection that takes new objects or changes of objects."""
    found, paths = {}, document["paths"]
    for path in (p for p in paths if re.fullmatch(r"/api/v1/[a-z-]+/\{\w+\}", p)):
        collection = path.removeprefix(PREFIX).partition("/")[0]
        of_all = paths.get(PREFIX + collection, {})
        created, changed = body(document, of_all, "post"), body(document, paths[path], "patch")
        if "get" in of_all and (created or changed):
            rows = of_all["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            row = resolved(document, resolved(document, rows)["properties"]["items"]["items"])
            at_first, later = created.get("properties", {}), changed.get("properties", {})
            found[collection] = Form(
                {n: json_schema(document, s) for n, s in (at_first | later | at_first).items()},
                tuple(created.get("required", ())),
                frozenset(at_first),
                frozenset(later),
                frozenset(row["properties"]),
            )
    return found


def body(document: Json, operations: Json, method: str) -> Json:
    """Return the schema of the body of a request, empty if there is none."""
    content = operations.get(method, {}).get("requestBody", {}).get("content", {})
    return resolved(document, content["application/json"]["schema"]) if content else {}


def resolved(document: Json, schema: Json) -> Json:
    """Return a schema with what it refers to. Of alternatives it has the type of the first."""
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "oneOf")}
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return resolved(document, document["components"]["schemas"][name]) | own
    parts = [resolved(document, p) for p in schema.get("allOf", ()) or schema.get("oneOf", ())]
    values = [value for part in parts for value in part.get("enum", ())]
    return (parts[0] if parts else {}) | ({"enum": values} if values else {}) | own


def json_schema(document: Json, schema: Json) -> Json:
    """Return a field as JSON Schema 2020-12, in which `null` is a type."""
    schema = resolved(document, schema)
    found = {key: schema[key] for key in KEPT if key in schema}
    for key in ("items", "additionalProperties"):
        if isinstance(inner := schema.get(key), dict):
            found[key] = json_schema(document, inner)
            found[key].pop("description", None)
    if schema.get("nullable"):
        found["type"] = [found["type"], "null"]
    if text := LISTED_VALUES.sub("", schema.get("description", "")):
        found["description"] = text
    return found


def fields_json(document: Json) -> str:
    """Return the fields of each collection, and those that a new object needs, one a line."""
    parts = (collection_json(*item) for item in sorted(forms(document).items()))
    return "{\n" + ",\n".join(parts) + "\n}\n"


def collection_json(collection: str, form: Form) -> str:
    lines = [f"  {json.dumps(name)}: {json.dumps(f)}" for name, f in form.fields.items()]
    required = json.dumps(form.required)
    fields = ",\n".join(lines)
    return f'"{collection}": {{"required": {required}, "properties": {{\n{fields}\n}}}}'
