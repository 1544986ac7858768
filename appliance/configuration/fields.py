"""Serializer fields of settings, derived from the types and limits of their sections."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from rest_framework import serializers

from appliance.api.fields import (
    LineField,
    NumberField,
    StrictBooleanField,
    TextField,
    WholeNumberField,
)
from appliance.runtime.live_settings import MULTILINE

AnyField = serializers.Field[Any, Any, Any, Any]
MAX_TEXT, MAX_ITEMS = 500, 100
SECRET_SUFFIX = "_is_set"
"""The API shows whether a secret is set, under its name with this suffix."""

BY_TYPE: dict[object, Callable[..., AnyField]] = {
    bool: StrictBooleanField,
    int: WholeNumberField,
    float: NumberField,
    str: partial(LineField, allow_blank=True),
    SecretStr: partial(LineField, allow_blank=True, write_only=True),
}


def is_secret(field: FieldInfo) -> bool:
    return field.annotation is SecretStr


def limits(field: FieldInfo) -> dict[str, Any]:
    """Return the limits of a field by the names of Django REST framework."""
    names = {"ge": "min_value", "le": "max_value", "max_length": "max_length"}
    return {
        names[key]: getattr(item, key)
        for item in field.metadata
        for key in names
        if getattr(item, key, None) is not None
    }


def description(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def request_field(field: FieldInfo) -> AnyField:
    """Return the field of a change; null resets the setting to its default."""
    common: dict[str, Any] = {
        "required": False,
        "allow_null": True,
        "help_text": description(field) + " Null: the default.",
    }
    if field.json_schema_extra == MULTILINE:
        return TextField(allow_blank=True, **limits(field), **common)
    return field_of(field.annotation, limits(field), common)


def response_field(field: FieldInfo) -> AnyField:
    if is_secret(field):
        return serializers.BooleanField(
            read_only=True, help_text=f"True if it is set. {description(field)}"
        )
    common = {"read_only": True, "help_text": description(field)}
    return field_of(field.annotation, {}, common)


def field_of(kind: Any, limits: dict[str, Any], common: dict[str, Any]) -> AnyField:
    """Return the serializer field of a type. Raises TypeError for a type without one."""
    if get_origin(kind) is Literal:
        return serializers.ChoiceField(get_args(kind), **common)
    if get_origin(kind) in (tuple, list):
        item = get_args(kind)[0]
        return serializers.ListField(
            child=field_of(item, limits, {}), max_length=MAX_ITEMS, **common
        )
    if get_origin(kind) is types.UnionType:
        return field_of(get_args(kind)[0], limits, common | {"allow_null": True})
    if kind not in BY_TYPE:
        raise TypeError(f"settings of type {kind} have no field in the API")
    if kind in (str, SecretStr) and not common.get("read_only"):
        limits = {"max_length": MAX_TEXT} | limits
    return BY_TYPE[kind](**limits, **common)
