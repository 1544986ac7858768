"""Completion of the OpenAPI document: what its operations and schemas lack.

drf-spectacular calls `complete` with the document (SPECTACULAR_SETTINGS).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from appliance.api.description.examples import MISSING, Json, example_of, field_of, referenced
from appliance.api.description.operations import DONE, HEADERS, RESPONSES
from appliance.api.description.request_examples import REQUEST_EXAMPLES
from appliance.api.description.streams import STREAM_EXAMPLES, WEBSOCKET, WEBSOCKET_PATH

METHODS = ("get", "post", "put", "patch", "delete")


def complete(result: Json, generator: Any, request: Any, public: bool) -> Json:
    """Add examples, descriptions and the WebSocket to the document."""
    components = result["components"]
    components["headers"] = HEADERS
    components["responses"] = dict(sorted(RESPONSES.items()))
    for name, schema in components["schemas"].items():
        complete_schema(name, schema)
    for operation in operations_of(result):
        complete_operation(result, operation)
    components["schemas"] = {
        name: extended(components["schemas"], name) for name in components["schemas"]
    }
    result["paths"][WEBSOCKET_PATH] = WEBSOCKET
    return result


def extended(schemas: Json, name: str) -> Json:
    """Return a schema. That of a detail refers to the object in lists, whose fields it has."""
    schema: Json = schemas[name]
    listed = name.removesuffix("Detail")
    if listed == name or listed not in schemas:
        return schema
    known = schemas[listed]["properties"]
    own = {
        "type": "object",
        "properties": {n: s for n, s in schema["properties"].items() if n not in known},
        "required": [n for n in schema["required"] if n not in known],
    }
    return {"allOf": [{"$ref": f"#/components/schemas/{listed}"}, own]}


def operations_of(document: Json) -> Iterator[Json]:
    for path in document["paths"].values():
        yield from (path[method] for method in METHODS if method in path)


def complete_schema(component: str, schema: Json) -> None:
    for name, inner in schema.get("properties", {}).items():
        known = field_of(component, name)
        if known is not None and known.description and not inner.get("description"):
            if "$ref" in inner:  # members beside a reference are ignored
                inner["allOf"] = [{"$ref": inner.pop("$ref")}]
            inner["description"] = known.description


def complete_operation(document: Json, operation: Json) -> None:
    for status, response in operation["responses"].items():
        if status in DONE:
            complete_response(document, status, response)
    for media in operation.get("requestBody", {}).get("content", {}).values():
        example = REQUEST_EXAMPLES.get(operation["operationId"])
        if example is None:
            example = example_of(document, media["schema"])
        if example is not MISSING:
            media["example"] = example


def complete_response(document: Json, status: str, response: Json) -> None:
    response["description"] = response.get("description") or DONE[status]
    for kind, media in response.get("content", {}).items():
        if kind in STREAM_EXAMPLES:
            media["example"] = STREAM_EXAMPLES[kind]
        if kind == "application/json":
            media["example"] = example_of(document, media["schema"])
            _, schema = referenced(document, media["schema"])
            if schema.get("properties", {}).get("version", {}).get("type") == "integer":
                headers = response.setdefault("headers", {})
                headers["ETag"] = {"$ref": "#/components/headers/ETag"}
