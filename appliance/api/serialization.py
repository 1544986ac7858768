"""Rows to JSON types with shared serializer instances."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson
from rest_framework.serializers import Serializer

from appliance.api.encoding import encode_json


@lru_cache
def shared_serializer(serializer: type[Serializer[Any]]) -> Serializer[Any]:
    """Return one instance per class: building its fields costs more than serializing a row."""
    made = serializer()
    _ = made.fields
    return made


def serialize(serializer: type[Serializer[Any]], row: Any) -> dict[str, Any]:
    return dict(shared_serializer(serializer).to_representation(row))


def to_json_types(data: Any) -> dict[str, Any]:
    """Convert values to the types of JSON, so that a stored response equals the first one."""
    result: dict[str, Any] = orjson.loads(encode_json(data))
    return result
