"""REST resource alarm, its history, and its reader for the feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.actions import raise_refusal
from appliance.accounts.authentication import request_user
from appliance.accounts.models import User
from appliance.accounts.resources import Resource, Values
from appliance.activity.feed import hub
from appliance.alarms import acknowledgement
from appliance.alarms.models import Alarm, AlarmEntry, AlarmState, ObjectKind, Severity
from appliance.api.fields import LineField
from appliance.api.filters import parse_boolean, parse_choice, parse_id, parse_text, parse_time
from appliance.api.listing import CREATED, Listing
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import RowSerializer, serialize
from appliance.api.views import ApplianceView
from appliance.db.change_log import Audience


class AlarmSerializer(RowSerializer[Alarm]):
    definition_id = serializers.UUIDField(
        read_only=True,
        allow_null=True,
        help_text="Id of the definition that raised it; null after the definition was deleted.",
    )
    object_id = serializers.UUIDField(
        read_only=True, help_text="Id of the object; zero for the appliance."
    )
    node_id = serializers.UUIDField(
        read_only=True, allow_null=True, help_text="Id of the node, also of alarms of its GPUs."
    )
    pool_id = serializers.UUIDField(
        read_only=True, allow_null=True, help_text="Id of the pool of the GPU or allocation."
    )
    raised_at = serializers.DateTimeField(source="created_at", read_only=True)

    class Meta:
        model = Alarm
        fields = (
            "id",
            "definition_id",
            "name",
            "severity",
            "state",
            "object_kind",
            "object_id",
            "object_name",
            "path",
            "node_id",
            "pool_id",
            "project_id",
            "message",
            "raised_at",
            "acknowledged_at",
            "acknowledged_by",
            "cleared_at",
            "version",
        )


class AlarmEntrySerializer(RowSerializer[AlarmEntry]):
    class Meta:
        model = AlarmEntry
        fields = ("id", "kind", "actor", "message", "created_at")


class AcknowledgementSerializer(RequestSerializer[dict[str, Any]]):
    text = LineField(
        max_length=300,
        required=False,
        default="",
        allow_blank=True,
        help_text="Remark for the history of the alarm.",
    )


ALARMS = Resource(
    AlarmSerializer,
    {
        "state": ("state", parse_choice(*AlarmState.values)),
        "open": ("cleared_at__isnull", parse_boolean),
        "severity": ("severity", parse_choice(*Severity.values)),
        "object_kind": ("object_kind", parse_choice(*ObjectKind.values)),
        "object_id": ("object_id", parse_id),
        "path": ("path__startswith", parse_text),
        "node_id": ("node_id", parse_id),
        "pool_id": ("pool_id", parse_id),
        "project_id": ("project_id", parse_id),
        "definition_id": ("definition_id", parse_id),
        "name": ("name", parse_text),
        "since": ("created_at__gte", parse_time),
        "until": ("created_at__lt", parse_time),
    },
    CREATED | {"name": Order("name"), "object_name": Order("object_name")},
    rows=acknowledgement.ALARMS.rows,
    kind=acknowledgement.ALARMS,
)
HISTORY = Listing(AlarmEntrySerializer)


class AlarmListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "alarms.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    get = ALARMS.lists("List alarms, newest first. `open=true` leaves those that are not cleared.")


class AlarmView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "alarms.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    get = ALARMS.shows("Return one alarm.")


class AlarmHistoryView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "alarms.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(parameters=HISTORY.parameters, responses=AlarmEntrySerializer(many=True))
    def get(self, request: Request, alarm_id: UUID) -> Response:
        """List the steps of an alarm and its actions, newest first."""
        alarm = get_object_or_404(Alarm.objects.visible_to(request_user(request)), pk=alarm_id)
        return HISTORY.respond(request, alarm.history.all())


class AlarmAcknowledgeView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": acknowledgement.ACKNOWLEDGE.privilege}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"POST"})

    @ALARMS.changes(
        AcknowledgementSerializer,
        permit=lambda user, alarm: raise_refusal(acknowledgement.place_refusal(user, alarm)),
    )
    def post(self, user: User, alarm: Alarm, values: Values) -> Alarm:
        """Acknowledge an alarm: it is known, and stays until its condition ends."""
        return acknowledgement.acknowledge(alarm_id=alarm.pk, actor=user, **values)


def read_alarms(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield id, privilege, audience and REST body of each alarm for the feed."""
    for alarm in Alarm.objects.filter(pk__in=ids):
        yield alarm.pk, "alarms.view", alarm.project_id, serialize(AlarmSerializer, alarm)


hub.register("alarm", read_alarms)
