"""Examples of bodies, built from the schemas of the OpenAPI document and the examples of fields."""

from __future__ import annotations

from typing import Any

from appliance.api.description.fields import FIELDS, TIME, UUID, Field

Json = dict[str, Any]
MISSING = object()
MAX_DEPTH = 8


def field_of(schema_name: str, name: str) -> Field | None:
    """Return the text of a field. A detail has the fields of the object in lists."""
    listed = schema_name.removesuffix("Detail")
    return FIELDS.get(f"{listed}.{name}") or FIELDS.get(name)


def referenced(document: Json, schema: Json) -> tuple[str, Json]:
    """Return the name and content of the component that a schema is, or "" and itself."""
    name, seen = "", schema
    while True:
        parts = seen.get("allOf") or seen.get("oneOf") or seen.get("anyOf") or ()
        if "$ref" in seen:
            name = seen["$ref"].rpartition("/")[2]
            seen = document["components"]["schemas"][name]
        elif parts:
            seen = parts[0]
        else:
            return name, seen


def example_of(
    document: Json, schema: Json, name: str = "", owner: str = "", depth: int = 0
) -> Any:
    """Return an example of a schema. MISSING if a field has none, so that a check finds it.

    `name` and `owner` are the field and the component that contain the schema.
    """
    if depth > MAX_DEPTH:
        return MISSING
    component, found = referenced(document, schema)
    known = field_of(owner, name)
    if "enum" in found:
        return enum_example(found["enum"], known)
    if "properties" in found:
        return object_example(document, found, component or owner, depth)
    if found.get("type") == "array":
        return array_example(document, found, known, name, owner, depth)
    if known is not None:
        return known.example
    for suffix, example in SUFFIXES.items():
        if name.endswith(suffix):
            return example
    if found.get("format") in FORMATS:
        return FORMATS[found["format"]]
    if found.get("type") == "boolean":
        return bool(found.get("default", True))
    return found.get("default", NUMBERS.get(str(found.get("type")), MISSING))


NUMBERS = {"integer": 1, "number": 1.0}
FORMATS = {"uuid": UUID, "date-time": TIME}
SUFFIXES = {"_seconds": 60.0, "_days": 90.0, "_mib": 1024, "connections": 4096, "_address": 512}
"""Examples of settings, by the unit in their names."""


def enum_example(values: list[Any], known: Field | None) -> Any:
    return known.example if known is not None and known.example in values else values[0]


def array_example(
    document: Json, schema: Json, known: Field | None, name: str, owner: str, depth: int
) -> Any:
    if known is not None and isinstance(known.example, list):
        return known.example
    item = example_of(document, schema["items"], name, owner, depth + 1)
    return MISSING if item is MISSING else [item]


def object_example(document: Json, schema: Json, component: str, depth: int) -> Json:
    found = {
        name: example_of(document, inner, name, component, depth + 1)
        for name, inner in schema["properties"].items()
    }
    return {name: value for name, value in found.items() if value is not MISSING}
