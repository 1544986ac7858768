"""REST views of reservations."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import idempotent
from appliance.api.errors import Code
from appliance.api.fields import NameField, StrictBooleanField, ZonedTimeField
from appliance.api.filters import parse_text, parse_time
from appliance.api.listing import CREATED, Listing
from appliance.api.pagination import Order
from appliance.api.request_serializer import RequestSerializer
from appliance.api.row_serializer import RowSerializer
from appliance.api.serialization import serialize, to_json_types
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.pools import reservations
from appliance.pools.models import Reservation


class ReservationSerializer(RowSerializer[Reservation]):
    pool = serializers.CharField(source="pool.name", read_only=True)
    project = serializers.CharField(source="project.name", read_only=True)

    class Meta:
        model = Reservation
        fields = (
            "id",
            "name",
            "pool",
            "project",
            "gpu_count",
            "percent",
            "starts_at",
            "ends_at",
            "version",
            "created_at",
        )


class ReservationRequestSerializer(RequestSerializer[dict[str, Any]]):
    name = NameField(max_length=100)
    pool = NameField(max_length=100)
    project = NameField(max_length=100)
    gpu_count = serializers.IntegerField(min_value=1, max_value=1024)
    percent = serializers.IntegerField(
        min_value=1, max_value=100, required=False, default=100, help_text="Share of each GPU."
    )
    starts_at = ZonedTimeField()
    ends_at = ZonedTimeField()
    allow_pending = StrictBooleanField(
        required=False,
        help_text="Accept the reservation also if reservations exceed the registered GPUs of the "
        "pool at some moment, or its shares have no room for a CUDA context. Otherwise it fails "
        "with `unsatisfiable`.",
    )


RESERVATIONS = Listing(
    ReservationSerializer,
    {
        "name": ("name", parse_text),
        "pool": ("pool__name", parse_text),
        "project": ("project__name", parse_text),
        "starts_until": ("starts_at__lt", parse_time),
        "ends_since": ("ends_at__gte", parse_time),
    },
    CREATED
    | {
        "name": Order("name"),
        "starts_at": Order("starts_at", kind=datetime),
        "ends_at": Order("ends_at", kind=datetime),
    },
)


class ReservationListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "reservations"}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.UNSATISFIABLE,),
    }

    @extend_schema(parameters=RESERVATIONS.parameters, responses=ReservationSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List reservations."""
        rows = Reservation.objects.visible_to(request_user(request))
        return RESERVATIONS.respond(request, rows.select_related("pool", "project"))

    @extend_schema(request=ReservationRequestSerializer, responses={201: ReservationSerializer})
    def post(self, request: Request) -> Response:
        """Reserve GPUs of a pool for a project during a period."""
        form = ReservationRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        actor = request_user(request).username

        def effect() -> tuple[int, dict[str, Any]]:
            reservation = reservations.create_reservation(actor=actor, **form.validated_data)
            return 201, to_json_types(serialize(ReservationSerializer, reservation))

        return idempotent(request, effect)


class ReservationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "pools.view",
        "DELETE": reservations.DELETE.privilege,
    }

    @extend_schema(responses=detail_of(ReservationSerializer))
    def get(self, request: Request, reservation_id: UUID) -> Response:
        """Return one reservation."""
        user = request_user(request)
        row = get_object_or_404(Reservation.objects.visible_to(user), pk=reservation_id)
        allowed = reservations.RESERVATIONS.actions_of(user, row)
        return Response(serialize(ReservationSerializer, row) | {"actions": allowed})

    @extend_schema(responses={204: None})
    def delete(self, request: Request, reservation_id: UUID) -> Response:
        """Delete a reservation. Its capacity becomes available to other projects."""
        rows = Reservation.objects.visible_to(request_user(request))
        row = get_object_or_404(rows, pk=reservation_id)
        actor = request_user(request).username
        reservations.delete_reservation(reservation_id=row.pk, actor=actor)
        return Response(status=204)
