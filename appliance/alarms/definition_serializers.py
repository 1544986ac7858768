"""Serializers of alarm definitions."""

from __future__ import annotations

from django.db import models
from rest_framework import serializers

from appliance.alarms.conditions import ANY_XID, STATES, XID_CLASSES
from appliance.alarms.models import CONDITION_FIELDS, PLACES, AlarmDefinition
from appliance.api.fields import (
    LineField,
    NameField,
    StrictBooleanField,
    TextField,
    WholeNumberField,
)
from appliance.api.request_serializer import ModelRequestSerializer
from appliance.api.serialization import RowSerializer

ALL_STATES = tuple(dict.fromkeys(state for states in STATES.values() for state in states))
STATES_HELP = "States of the object, one of which raises the alarm (condition `state`). " + (
    "; ".join(f"{kind}: {', '.join(states)}" for kind, states in STATES.items()) + "."
)
HELP = {
    "xid_class": "Class of the XID errors (condition `xid`).",
    "site": "Name of a site. The definition holds for its nodes and what is below them. Without "
    "any place it holds for the whole appliance.",
    "node": "Name of a node. The definition holds for it and its GPUs.",
    "gpu": "Node and index of a GPU: `n1/0`.",
    "pool": "Name of a pool. The definition holds for its GPUs and allocations.",
    "mail_users": "Names of users who get a mail when the alarm is raised and when it is cleared.",
}
SETTINGS = (
    "enabled",
    "severity",
    *CONDITION_FIELDS,
    "raise_after_seconds",
    "clear_after_seconds",
    *PLACES,
    "mail_users",
    "webhook_url",
    "script",
    "enters_maintenance",
)


def place(name: str, source: str) -> serializers.CharField:
    return serializers.CharField(
        source=source, default=None, allow_null=True, read_only=True, help_text=HELP[name]
    )


class AlarmDefinitionSerializer(RowSerializer[AlarmDefinition]):
    states = serializers.ListField(
        child=serializers.ChoiceField(ALL_STATES), read_only=True, help_text=STATES_HELP
    )
    mail_users = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text=HELP["mail_users"]
    )
    webhook_secret_is_set = serializers.BooleanField(
        read_only=True, help_text="True if requests of the webhook are signed."
    )
    site = place("site", "site.name")
    node = place("node", "node.name")
    gpu = place("gpu", "gpu.short_name")
    pool = place("pool", "pool.name")

    class Meta:
        model = AlarmDefinition
        fields = (
            "id",
            "name",
            "notes",
            "is_builtin",
            *SETTINGS,
            "webhook_secret_is_set",
            "version",
            "created_at",
        )
        extra_kwargs = {  # noqa: RUF012 - DRF declares it without ClassVar
            "xid_class": {"help_text": HELP["xid_class"]}
        }


def place_name(name: str) -> NameField:
    text = HELP[name] + " Empty: none."
    return NameField(
        max_length=110, required=False, allow_null=True, allow_blank=True, help_text=text
    )


class AlarmDefinitionRequestSerializer(ModelRequestSerializer[AlarmDefinition]):
    serializer_field_mapping = {  # noqa: RUF012 - DRF declares it without ClassVar
        **ModelRequestSerializer.serializer_field_mapping,
        models.BooleanField: StrictBooleanField,
        models.IntegerField: WholeNumberField,
        models.TextField: TextField,
    }
    name = NameField(max_length=100)
    states = serializers.ListField(
        child=serializers.ChoiceField(ALL_STATES),
        max_length=len(ALL_STATES),
        required=False,
        help_text=STATES_HELP,
    )
    xid_class = serializers.ChoiceField(
        (*XID_CLASSES, ANY_XID), required=False, allow_blank=True, help_text=HELP["xid_class"]
    )
    site = place_name("site")
    node = place_name("node")
    gpu = place_name("gpu")
    pool = place_name("pool")
    mail_users = serializers.ListField(
        child=NameField(max_length=150), max_length=50, required=False, help_text=HELP["mail_users"]
    )
    webhook_secret = LineField(
        max_length=200,
        required=False,
        allow_blank=True,
        write_only=True,
        help_text="Key with which requests of the webhook are signed; empty: they are not. It is "
        "stored encrypted and never shown. Another webhook_url without it removes it.",
    )

    class Meta:
        model = AlarmDefinition
        fields = ("name", "notes", *SETTINGS, "webhook_secret")
