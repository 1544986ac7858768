"""Serializers of alarm definitions."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from appliance.alarms.conditions import ANY_XID, STATES, XID_CLASSES
from appliance.alarms.models import (
    AlarmDefinition,
    Comparison,
    Condition,
    ObjectKind,
    Severity,
)
from appliance.api.fields import LineField, NameField, NumberField, StrictBooleanField, TextField
from appliance.api.request_serializer import RequestSerializer
from appliance.api.row_serializer import RowSerializer
from appliance.configuration.fields import WholeNumberField

ALL_STATES = tuple(dict.fromkeys(state for states in STATES.values() for state in states))
YEAR_SECONDS = 31_536_000
STATES_HELP = "States of the object, one of which raises the alarm (condition `state`). " + (
    "; ".join(f"{kind}: {', '.join(states)}" for kind, states in STATES.items())
)
HELP = {
    "metric": "Name of the metric (condition `metric`).",
    "comparison": "Whether the alarm is raised `above` or `below` the threshold.",
    "threshold": "Limit: the value of the metric, the number of events, or seconds that a "
    "certificate has left, an allocation waits, or is idle.",
    "clear_threshold": "Limit of the metric beyond which a raised alarm stays, so that values near "
    "the threshold do not raise and clear it by turns. Null: the threshold.",
    "event_kind": "Kind of the events that are counted (condition `event`), such as "
    "`node.unreachable`.",
    "xid_class": "Class of the XID errors (condition `xid`).",
    "window_seconds": "Period in which events are counted.",
    "raise_after_seconds": "Seconds for which the condition must hold before the alarm is raised.",
    "clear_after_seconds": "Seconds for which it must not hold before the alarm is cleared.",
    "site": "Name of a site. The definition holds for its nodes and what is below them. Without "
    "any place it holds for the whole appliance.",
    "node": "Name of a node. The definition holds for it and its GPUs.",
    "gpu": "Node and index of a GPU: `n1/0`.",
    "pool": "Name of a pool. The definition holds for its GPUs and allocations.",
    "mail_users": "Names of users who get a mail when the alarm is raised and when it is cleared.",
    "webhook_url": "Address that gets a POST when the alarm is raised and when it is cleared.",
    "script": "Name of a script that root has placed on the appliance. It gets JSON on its "
    "standard input.",
    "enters_maintenance": "Set the node into maintenance when the alarm is raised, with the "
    "privileges of the user who last changed the definition.",
}


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
        read_only=True, help_text="Whether requests of the webhook are signed."
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
            "enabled",
            "severity",
            "object_kind",
            "condition",
            "states",
            "metric",
            "comparison",
            "threshold",
            "clear_threshold",
            "event_kind",
            "xid_class",
            "window_seconds",
            "raise_after_seconds",
            "clear_after_seconds",
            "site",
            "node",
            "gpu",
            "pool",
            "mail_users",
            "webhook_url",
            "webhook_secret_is_set",
            "script",
            "enters_maintenance",
            "version",
            "created_at",
        )
        extra_kwargs = {  # noqa: RUF012 - DRF declares it without ClassVar
            name: {"help_text": HELP[name]}
            for name in (
                "metric",
                "comparison",
                "threshold",
                "clear_threshold",
                "event_kind",
                "xid_class",
                "window_seconds",
                "raise_after_seconds",
                "clear_after_seconds",
                "webhook_url",
                "script",
                "enters_maintenance",
            )
        }


def seconds(name: str) -> WholeNumberField:
    return WholeNumberField(
        min_value=0, max_value=YEAR_SECONDS, required=False, help_text=HELP[name]
    )


def number(name: str) -> NumberField:
    return NumberField(
        min_value=-1e18, max_value=1e18, required=False, allow_null=True, help_text=HELP[name]
    )


def place_name(name: str) -> NameField:
    text = HELP[name] + " Null or empty: no such place."
    return NameField(
        max_length=110, required=False, allow_null=True, allow_blank=True, help_text=text
    )


class AlarmDefinitionChangeSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100, required=False)
    notes = TextField(max_length=2000, required=False, allow_blank=True)
    enabled = StrictBooleanField(required=False, help_text="Whether it is evaluated.")
    severity = serializers.ChoiceField(Severity.choices, required=False)
    object_kind = serializers.ChoiceField(ObjectKind.choices, required=False)
    condition = serializers.ChoiceField(Condition.choices, required=False)
    states = serializers.ListField(
        child=serializers.ChoiceField(ALL_STATES),
        max_length=len(ALL_STATES),
        required=False,
        help_text=STATES_HELP,
    )
    metric = LineField(max_length=60, required=False, allow_blank=True, help_text=HELP["metric"])
    comparison = serializers.ChoiceField(
        Comparison.choices, required=False, help_text=HELP["comparison"]
    )
    threshold = number("threshold")
    clear_threshold = number("clear_threshold")
    event_kind = LineField(
        max_length=60, required=False, allow_blank=True, help_text=HELP["event_kind"]
    )
    xid_class = serializers.ChoiceField(
        (*XID_CLASSES, ANY_XID), required=False, allow_blank=True, help_text=HELP["xid_class"]
    )
    window_seconds = seconds("window_seconds")
    raise_after_seconds = seconds("raise_after_seconds")
    clear_after_seconds = seconds("clear_after_seconds")
    site = place_name("site")
    node = place_name("node")
    gpu = place_name("gpu")
    pool = place_name("pool")
    mail_users = serializers.ListField(
        child=NameField(max_length=150), max_length=50, required=False, help_text=HELP["mail_users"]
    )
    webhook_url = LineField(
        max_length=500, required=False, allow_blank=True, help_text=HELP["webhook_url"]
    )
    webhook_secret = LineField(
        max_length=200,
        required=False,
        allow_blank=True,
        write_only=True,
        help_text="Key with which requests of the webhook are signed; empty: they are not. It is "
        "stored encrypted and never shown. Another webhook_url without it removes it.",
    )
    script = LineField(max_length=100, required=False, allow_blank=True, help_text=HELP["script"])
    enters_maintenance = StrictBooleanField(required=False, help_text=HELP["enters_maintenance"])


# Creates a definition: what decides about objects is required.
class AlarmDefinitionRequestSerializer(AlarmDefinitionChangeSerializer):
    name = NameField(max_length=100)
    severity = serializers.ChoiceField(Severity.choices)
    object_kind = serializers.ChoiceField(ObjectKind.choices)
    condition = serializers.ChoiceField(Condition.choices)
