"""REST resource alarm definition."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import create_once
from appliance.alarms import definitions
from appliance.alarms.definition_serializers import (
    AlarmDefinitionChangeSerializer,
    AlarmDefinitionRequestSerializer,
    AlarmDefinitionSerializer,
)
from appliance.alarms.models import AlarmDefinition, Condition, ObjectKind, Severity
from appliance.api.filters import parse_boolean, parse_choice, parse_id, parse_text
from appliance.api.listing import CREATED, Listing
from appliance.api.pagination import Order
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, check_version

DEFINITIONS = Listing(
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
)


def with_places(rows: QuerySet[AlarmDefinition]) -> QuerySet[AlarmDefinition]:
    """Load the rows whose names the serializer shows with the definitions."""
    return rows.select_related("site", "node", "gpu__node", "pool")


class AlarmDefinitionListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "alarms.manage", "POST": "alarms.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "alarm-definitions"}

    @extend_schema(
        parameters=DEFINITIONS.parameters, responses=AlarmDefinitionSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        """List alarm definitions. Their webhooks may contain secrets of other services."""
        return DEFINITIONS.respond(request, with_places(AlarmDefinition.objects.all()))

    @extend_schema(
        request=AlarmDefinitionRequestSerializer, responses={201: AlarmDefinitionSerializer}
    )
    def post(self, request: Request) -> Response:
        """Create an alarm definition. It holds at its place and below it."""
        form = AlarmDefinitionRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        values, actor = form.validated_data, request_user(request)

        def create() -> dict[str, Any]:
            row = definitions.create_definition(values=values, actor=actor)
            return serialize(AlarmDefinitionSerializer, row)

        return create_once(request, create, secrets=["webhook_secret"])


class AlarmDefinitionView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "alarms.manage",
        "PATCH": definitions.UPDATE.privilege,
        "DELETE": definitions.DELETE.privilege,
    }
    version_methods: ClassVar[frozenset[str]] = frozenset({"PATCH", "DELETE"})

    @extend_schema(responses=detail_of(AlarmDefinitionSerializer))
    def get(self, request: Request, definition_id: UUID) -> Response:
        """Return one alarm definition."""
        row = get_object_or_404(with_places(AlarmDefinition.objects.all()), pk=definition_id)
        allowed = definitions.DEFINITIONS.actions_of(request_user(request), row)
        return Response(serialize(AlarmDefinitionSerializer, row) | {"actions": allowed})

    @extend_schema(request=AlarmDefinitionChangeSerializer, responses=AlarmDefinitionSerializer)
    def patch(self, request: Request, definition_id: UUID) -> Response:
        """Change an alarm definition. Fields that are absent keep their values.

        Its alarms are cleared if the condition or the place changes, and raised again where the
        new condition holds.
        """
        check_version(get_object_or_404(AlarmDefinition, pk=definition_id), request)
        form = AlarmDefinitionChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        row = definitions.update_definition(
            definition_id=definition_id, values=form.validated_data, actor=request_user(request)
        )
        return Response(serialize(AlarmDefinitionSerializer, row))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, definition_id: UUID) -> Response:
        """Delete an alarm definition and clear its alarms. Those of the product stay."""
        check_version(get_object_or_404(AlarmDefinition, pk=definition_id), request)
        definitions.delete_definition(definition_id=definition_id, actor=request_user(request))
        return Response(status=204)
