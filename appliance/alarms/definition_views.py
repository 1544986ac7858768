"""REST resource alarm definition."""

from __future__ import annotations

from typing import ClassVar

from appliance.accounts.models import User
from appliance.accounts.resources import Resource, Values
from appliance.alarms import definitions
from appliance.alarms.definition_serializers import (
    AlarmDefinitionRequestSerializer,
    AlarmDefinitionSerializer,
)
from appliance.alarms.models import AlarmDefinition, Condition, ObjectKind, Severity
from appliance.api.filters import parse_boolean, parse_choice, parse_id, parse_text
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.views import ApplianceView

DEFINITIONS = Resource(
    AlarmDefinitionSerializer,
    {
        "name": ("name", parse_text),
        "enabled": ("enabled", parse_boolean),
        "severity": ("severity", parse_choice(*Severity.values)),
        "object_kind": ("object_kind", parse_choice(*ObjectKind.values)),
        "condition": ("condition", parse_choice(*Condition.values)),
        "site": ("site__name", parse_text),
        "node": ("node__name", parse_text),
        "gpu_id": ("gpu_id", parse_id),
        "pool": ("pool__name", parse_text),
    },
    CREATED | {"name": Order("name")},
    rows=lambda _: AlarmDefinition.objects.select_related("site", "node", "gpu__node", "pool"),
    kind=definitions.DEFINITIONS,
)


class AlarmDefinitionListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "alarms.manage", "POST": "alarms.manage"}
    created: ClassVar[dict[str, str]] = {"POST": "alarm-definitions"}

    get = DEFINITIONS.lists(
        "List alarm definitions. Their webhooks may contain secrets of other services."
    )

    @DEFINITIONS.creates(AlarmDefinitionRequestSerializer, secrets=["webhook_secret"])
    def post(self, user: User, values: Values) -> AlarmDefinition:
        """Create an alarm definition. It holds at its place and below it."""
        return definitions.create_definition(values=values, actor=user)


class AlarmDefinitionView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "alarms.manage",
        "PATCH": definitions.UPDATE.privilege,
        "DELETE": definitions.DELETE.privilege,
    }

    get = DEFINITIONS.shows("Return one alarm definition.")

    @DEFINITIONS.changes(AlarmDefinitionRequestSerializer)
    def patch(self, user: User, row: AlarmDefinition, values: Values) -> AlarmDefinition:
        """Change an alarm definition. Fields that are absent keep their values.

        Its alarms are cleared if the condition or the place changes, and raised again where the
        new condition holds.
        """
        return definitions.update_definition(definition_id=row.pk, values=values, actor=user)

    @DEFINITIONS.deletes()
    def delete(self, user: User, row: AlarmDefinition) -> None:
        """Delete an alarm definition and clear its alarms. Those of the product stay."""
        definitions.delete_definition(definition_id=row.pk, actor=user)
