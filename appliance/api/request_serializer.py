"""Base of all serializers of request bodies: a field that the serializer does not know is refused.

Serializers have comments instead of docstrings, which would appear in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar

from django.db import models
from rest_framework import serializers

from appliance.api.fields import LineField, NumberField

T = TypeVar("T")
M = TypeVar("M", bound=models.Model)
LONGEST_NAME = 60
"""Longer names in a request are cut in the message."""


# A misspelled field would otherwise be ignored and its default used. OpenAPI shows
# `additionalProperties: false` (`api/openapi.py`).
class RequestSerializer(serializers.Serializer[T]):
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            known = [name for name, field in self.fields.items() if not field.read_only]
            reject_unknown_fields(data, known)
        return super().to_internal_value(data)


# The columns of the model give type, limits and description of the fields in `Meta.fields`. A
# column of another type than these needs a declared field.
class ModelRequestSerializer(RequestSerializer[M], serializers.ModelSerializer[M]):
    serializer_field_mapping = {  # noqa: RUF012 - DRF declares it without ClassVar
        models.BooleanField: serializers.BooleanField,
        models.CharField: LineField,
        models.FloatField: NumberField,
        models.IntegerField: serializers.IntegerField,
        models.TextField: serializers.CharField,
    }


def reject_unknown_fields(given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise ValidationError with one message for each field that is not known."""
    if errors := {name: [message(name, known)] for name in given if name not in known}:
        raise serializers.ValidationError(errors, code="unknown_field")


def message(name: str, known: Collection[str]) -> str:
    """Return what is wrong with an unknown field, with the most similar name or all names."""
    if similar := get_close_matches(name[:LONGEST_NAME], known, n=1):
        return f'Unknown field. Did you mean "{similar[0]}"?'
    if not known:
        return "Unknown field. This operation has no fields."
    return f"Unknown field. Known fields: {', '.join(sorted(known))}."
