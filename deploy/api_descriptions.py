"""Check of docs/openapi.yaml: nothing that a reader needs is missing, and nothing internal shows.

`python -m deploy.api_descriptions` prints what is missing and fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from appliance.api.description.examples import MISSING, example_of, referenced
from appliance.api.errors import Code

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("get", "post", "put", "patch", "delete")
UNSAFE = ("post", "put", "patch", "delete")
LONGEST_SUMMARY = 120
INTERNAL = re.compile(
    r"\b(queryset|query set|serializer|mixin|docstring|\w+View\b|Raises\b|Http404|ApplianceError|"
    r"self\.|Meta\b|[a-z_]+\.py|prepared statement)\b"
)
"""Words that tell about the code, not about the operation."""
Json = dict[str, Any]


def gaps(document: Json) -> Iterator[str]:
    """Yield each missing part."""
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                place = f"{method.upper()} {path}"
                for gap in operation_gaps(document, method, path, operations[method]):
                    yield f"{place}: {gap}"
    for name, schema in document["components"]["schemas"].items():
        yield from (f"schema {name}: {gap}" for gap in schema_gaps(document, name, schema))


def operation_gaps(document: Json, method: str, path: str, operation: Json) -> Iterator[str]:
    summary, description = operation.get("summary", ""), operation.get("description", "")
    if not summary or len(summary) > LONGEST_SUMMARY or summary.endswith("."):
        yield f"summary is missing, longer than {LONGEST_SUMMARY} characters, or ends with a dot"
    if not description:
        yield "description is missing"
    yield from internal(summary + " " + description)
    for parameter in operation.get("parameters", []):
        if parameter["in"] != "path" and not parameter.get("description"):
            yield f"parameter {parameter['name']} has no description"
    yield from body_gaps(operation)
    if not operation.get("x-websocket"):
        yield from error_gaps(document, method, path, operation)
    yield from header_gaps(document, method, operation)


def body_gaps(operation: Json) -> Iterator[str]:
    for media in operation.get("requestBody", {}).get("content", {}).values():
        if "example" not in media:
            yield "the request body has no example"
    for status, response in operation["responses"].items():
        if status < "400" and not response.get("description"):
            yield f"response {status} has no description"
        for media in response.get("content", {}).values():
            if "example" not in media and "examples" not in media and not is_binary(media):
                yield f"response {status} has no example"


def is_binary(media: Json) -> bool:
    return bool(media.get("schema", {}).get("format") == "binary")


def error_gaps(document: Json, method: str, path: str, operation: Json) -> Iterator[str]:
    """Yield statuses that each operation of this kind has and this one lacks."""
    expected = {"400", "503"}
    if {} not in operation.get("security", [{}]) and operation.get("security"):
        expected |= {"401", "403"}
    if "{" in path:
        expected.add("404")
    if method in UNSAFE:
        expected.add("415")
    if missing := expected - set(operation["responses"]):
        yield f"errors {', '.join(sorted(missing))} are missing"
    for status, response in operation["responses"].items():
        if status >= "400":
            component = response.get("$ref", "").rpartition("/")[2]
            found = document["components"]["responses"].get(component, {})
            media = found.get("content", {}).get("application/problem+json", {})
            codes = media.get("examples", {})
            if not codes or not set(codes) <= set(map(str, Code)):
                yield f"response {status} names no error code"


def header_gaps(document: Json, method: str, operation: Json) -> Iterator[str]:
    headers = {p["name"] for p in operation.get("parameters", []) if p["in"] == "header"}
    if "412" in operation["responses"] and "If-Match" not in headers:
        yield "the header If-Match is missing"
    if "422" in operation["responses"] and "Idempotency-Key" not in headers:
        yield "the header Idempotency-Key is missing"
    for status, response in operation["responses"].items():
        media = response.get("content", {}).get("application/json")
        if media is None or status >= "300":
            continue
        _, schema = referenced(document, media["schema"])
        versioned = schema.get("properties", {}).get("version", {}).get("type") == "integer"
        if versioned and "ETag" not in response.get("headers", {}):
            yield f"response {status} lacks the header ETag"


def schema_gaps(document: Json, name: str, schema: Json) -> Iterator[str]:
    yield from internal(schema.get("description", ""))
    for field, inner in own_fields(schema).items():
        if "$ref" not in inner and not inner.get("description"):
            yield f"field {field} has no description"
        if example_of(document, inner, field, name) is MISSING:
            yield f"field {field} has no example"
        if not is_permitted(inner):
            yield f"field {field} has a default outside of its limits"
        yield from internal(inner.get("description", ""))


def own_fields(schema: Json) -> Json:
    """Return the fields that a schema has beside those of the schemas that it refers to."""
    parts = [schema, *schema.get("allOf", [])]
    return {name: inner for part in parts for name, inner in part.get("properties", {}).items()}


def is_permitted(schema: Json) -> bool:
    """Return whether the default is within the limits of the field, or is no number."""
    default = schema.get("default")
    if not isinstance(default, int | float):
        return True
    return bool(schema.get("minimum", default) <= default <= schema.get("maximum", default))


def internal(text: str) -> Iterator[str]:
    if match := INTERNAL.search(text):
        yield f"a description tells about the code: {match[0]!r}"


def main() -> None:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load((ROOT / "docs" / "openapi.yaml").read_text(), Loader=loader)  # noqa: S506 - a safe loader
    if found := sorted(gaps(document)):
        lines = "\n".join(found)
        raise SystemExit(
            f"{lines}\n\n{len(found)} parts are missing in docs/openapi.yaml. Docstrings and "
            "help_text give texts, appliance/api/description the rest."
        )


if __name__ == "__main__":
    main()
