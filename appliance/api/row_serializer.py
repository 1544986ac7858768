"""Serializer whose fields are compiled once to plain reads of attributes.

DRF resolves source and conversion of each field again for every row, which costs more than the
query for pages of 500 rows and for the feed. Here the declared fields stay the only list of a
resource: REST, feed and OpenAPI derive from them.

Serializers have comments instead of docstrings, which would appear in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from django.db.models import Model
from rest_framework import serializers

from appliance.api.encoding import format_timestamp

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
