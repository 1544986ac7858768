"""REST views of reservations."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.activity.idempotency import idempotent
from appliance.api.fields import NameField, StrictBooleanField, ZonedTimeField
from appliance.api.filters import reject_unknown_parameters
from appliance.api.pagination import CursorPagination
from appliance.api.request_serializer import RequestSerializer
from appliance.api.row_serializer import RowSerializer
from appliance.api.serialization import serialize, to_json_types
from appliance.api.views import ApplianceView
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
        "pool at some moment. Otherwise it fails with `unsatisfiable`.",
    )


class ReservationListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}

    @extend_schema(responses=ReservationSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List reservations."""
        reject_unknown_parameters(request, [])
        page = CursorPagination()
        rows = Reservation.objects.visible_to(request_user(request))
        found = page.paginate_queryset(rows.select_related("pool", "project"), request)
        return page.get_paginated_response([serialize(ReservationSerializer, r) for r in found])

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
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "DELETE": "pools.manage"}

    @extend_schema(responses=ReservationSerializer)
    def get(self, request: Request, reservation_id: UUID) -> Response:
        """Return one reservation."""
        rows = Reservation.objects.visible_to(request_user(request))
        return Response(
            serialize(ReservationSerializer, get_object_or_404(rows, pk=reservation_id))
        )

    @extend_schema(responses={204: None})
    def delete(self, request: Request, reservation_id: UUID) -> Response:
        """Delete a reservation. Its capacity becomes available to other projects."""
        rows = Reservation.objects.visible_to(request_user(request))
        row = get_object_or_404(rows, pk=reservation_id)
        actor = request_user(request).username
        reservations.delete_reservation(reservation_id=row.pk, actor=actor)
        return Response(status=204)
