"""Rows to JSON types: serializers whose fields are compiled once, and their shared instances.

DRF resolves source and conversion of each field again for every row, which costs more than the
query for pages of 500 rows and for the feed. Here the declared fields stay the only list of a
resource: REST, feed and OpenAPI derive from them.

Serializers have comments instead of docstrings, which would appear in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, TypeVar

import orjson
from django.db.models import Model
from rest_framework import serializers

from appliance.api.encoding import encode_json, format_timestamp

M = TypeVar("M", bound=Model)
Reader = Callable[[Any], Any]


# Read-only serializer of database rows. A row is a model instance or any object with the
# attributes in `columns()`. Fields with a source such as `node_name` need annotated rows.
class RowSerializer(serializers.ModelSerializer[M]):
    @cached_property
    def readers(self) -> list[tuple[str, Reader]]:
        return [(str(name), self.reader(field)) for name, field in self.fields.items()]

    @cached_property
    def readers_by_name(self) -> dict[str, Reader]:
        return dict(self.readers)

    @property
    def changes_representation(self) -> bool:
        """Return whether a subclass computes fields together: one alone cannot be read."""
        return type(self).to_representation is not RowSerializer.to_representation

    def reader(self, field: serializers.Field[Any, Any, Any, Any]) -> Reader:
        """Return a function from a row to the JSON value of the field."""
        if isinstance(field, serializers.SerializerMethodField):
            method: Reader = getattr(self, field.method_name or "")
            return method
        read = source_reader(field.source or "")
        if isinstance(field, serializers.ListSerializer):
            represent: Reader = getattr(field.child, "to_representation")  # noqa: B009  # Optional
            return lambda row: [represent(item) for item in read(row).all()]
        if isinstance(field, serializers.UUIDField):
            return lambda row: None if (value := read(row)) is None else str(value)
        if isinstance(field, serializers.DateTimeField):
            return lambda row: None if (value := read(row)) is None else format_timestamp(value)
        return read

    def to_representation(self, instance: Any) -> dict[str, Any]:
        return {name: read(instance) for name, read in self.readers}

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the attributes that the fields read, without computed and nested ones."""
        computed = (serializers.SerializerMethodField, serializers.BaseSerializer)
        fields = cls().fields.values()
        return tuple(str(f.source) for f in fields if not isinstance(f, computed))


def source_reader(source: str) -> Reader:
    """Return a function that reads an attribute path such as `site.name`; None ends the path."""
    if "." not in source:
        return attrgetter(source)
    first, _, rest = source.partition(".")
    read_rest = source_reader(rest)

    def read(row: Any) -> Any:
        value = getattr(row, first)
        return None if value is None else read_rest(value)

    return read


@lru_cache
def shared_serializer(serializer: type[serializers.Serializer[Any]]) -> serializers.Serializer[Any]:
    """Return one instance per class: building its fields costs more than serializing a row."""
    made = serializer()
    _ = made.fields
    return made


def fields_of(serializer: type[serializers.Serializer[Any]]) -> list[str]:
    return [str(name) for name in shared_serializer(serializer).fields]


def serialize(
    serializer: type[serializers.Serializer[Any]], row: Any, names: tuple[str, ...] | None = None
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
