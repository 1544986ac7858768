"""Serializers of the settings, one for each section, built from the sections.

Serializers have comments instead of docstrings, which would appear in the OpenAPI document.
"""

from __future__ import annotations

from typing import Any

from pydantic import SecretStr
from rest_framework import serializers

from appliance.api.request_serializer import RequestSerializer
from appliance.configuration.fields import (
    SECRET_SUFFIX,
    is_secret,
    request_field,
    response_field,
)
from appliance.runtime.live_settings import SECTIONS, Section

Serializer = serializers.Serializer[dict[str, Any]]


def shown_name(name: str, section: type[Section]) -> str:
    return name + SECRET_SUFFIX if is_secret(section.model_fields[name]) else name


def response_serializer(section: type[Section]) -> type[Serializer]:
    fields = {
        shown_name(name, section): response_field(field)
        for name, field in section.model_fields.items()
    }
    return type(f"{section.__name__}Serializer", (serializers.Serializer,), fields)


def request_serializer(section: type[Section]) -> type[Serializer]:
    fields = {name: request_field(field) for name, field in section.model_fields.items()}
    return type(f"{section.__name__}ChangeSerializer", (RequestSerializer,), fields)


class SettingsSerializer(serializers.Serializer[dict[str, Any]]):
    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            "version": serializers.IntegerField(read_only=True),
            "changed": serializers.ListField(
                child=serializers.CharField(),
                read_only=True,
                help_text="Names of the settings that differ from their defaults, such as "
                "`retention.events_days`.",
            ),
            **{
                name: response_serializer(section)(read_only=True, help_text=section.__doc__)
                for name, section in sorted(SECTIONS.items())
            },
        }


class SettingsChangeSerializer(RequestSerializer[dict[str, Any]]):
    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {
            name: request_serializer(section)(required=False, help_text=section.__doc__)
            for name, section in sorted(SECTIONS.items())
        }


class TestMailSerializer(RequestSerializer[dict[str, Any]]):
    to = serializers.EmailField(max_length=254, help_text="Address of the recipient.")


def represent(section: Section) -> dict[str, Any]:
    """Return the body of a section, which shows of a secret only whether it is set."""

    def shown(value: Any) -> Any:
        return bool(value.get_secret_value()) if isinstance(value, SecretStr) else value

    return {shown_name(n, type(section)): shown(v) for n, v in section}
