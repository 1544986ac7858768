"""Rows to JSON types with shared serializer instances."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import orjson
from rest_framework.serializers import Serializer

from appliance.api.encoding import encode_json
from appliance.api.row_serializer import RowSerializer


@lru_cache
def shared_serializer(serializer: type[Serializer[Any]]) -> Serializer[Any]:
    """Return one instance per class: building its fields costs more than serializing a row."""
    made = serializer()
    _ = made.fields
    return made


def fields_of(serializer: type[Serializer[Any]]) -> list[str]:
    return [str(name) for name in shared_serializer(serializer).fields]


def serialize(
    serializer: type[Serializer[Any]], row: Any, names: tuple[str, ...] | None = None
) -> dict[str, Any]:
    """Return the fields of a row: those with these names, or all."""
    shared = shared_serializer(serializer)
    if names is None:
        return dict(shared.to_representation(row))
    if isinstance(shared, RowSerializer) and not shared.changes_representation:
        return {name: shared.readers_by_name[name](row) for name in names}
    content = shared.to_representation(row)
    return {name: content[name] for name in names}


def to_json_types(data: Any) -> dict[str, Any]:
    """Convert values to the types of JSON, so that a stored response equals the first one."""
    result: dict[str, Any] = orjson.loads(encode_json(data))
    return result
