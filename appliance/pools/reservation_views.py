"""REST views of reservations."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from rest_framework import serializers

from appliance.accounts.models import User
from appliance.accounts.resources import Resource, Values
from appliance.api.errors import Code
from appliance.api.fields import NameField, StrictBooleanField, ZonedTimeField
from appliance.api.filters import parse_text, parse_time
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.request_serializer import ModelRequestSerializer
from appliance.api.serialization import RowSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.pools import reservations
from appliance.pools.models import Reservation

FIELDS = ("name", "pool", "project", "gpu_count", "percent", "starts_at", "ends_at")


class ReservationSerializer(RowSerializer[Reservation]):
    pool = serializers.CharField(source="pool.name", read_only=True)
    project = serializers.CharField(source="project.name", read_only=True)

    class Meta:
        model = Reservation
        fields = ("id", *FIELDS, "version", "created_at")


class ReservationRequestSerializer(ModelRequestSerializer[Reservation]):
    name = NameField(max_length=100)
    pool = NameField(max_length=100)
    project = NameField(max_length=100)
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

    class Meta:
        model = Reservation
        fields = (*FIELDS, "allow_pending")


RESERVATIONS = Resource(
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
    rows=lambda user: Reservation.objects.visible_to(user).select_related("pool", "project"),
    kind=reservations.RESERVATIONS,
)


class ReservationListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "pools.view", "POST": "pools.manage"}
    created: ClassVar[dict[str, str]] = {"POST": "reservations"}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.UNSATISFIABLE,),
    }

    get = RESERVATIONS.lists("List reservations.")

    @RESERVATIONS.creates(ReservationRequestSerializer)
    def post(self, user: User, values: Values) -> Reservation:
        """Reserve GPUs of a pool for a project during a period."""
        return reservations.create_reservation(values=values, actor=user.username)


class ReservationView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "pools.view",
        "DELETE": reservations.DELETE.privilege,
    }

    get = RESERVATIONS.shows("Return one reservation.")

    @RESERVATIONS.deletes()
    def delete(self, user: User, reservation: Reservation) -> None:
        """Delete a reservation. Its capacity becomes available to other projects."""
        reservations.delete_reservation(reservation_id=reservation.pk, actor=user.username)
