"""REST views of sessions, and their rows for the feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from rest_framework import serializers
from rest_framework.request import Request

from appliance.accounts.authentication import request_user
from appliance.accounts.resources import Resource
from appliance.activity.feed import hub
from appliance.allocations.models import Session, SessionState, error_percent
from appliance.allocations.sessions import COUNTERS, series_id_of
from appliance.api.filters import (
    parse_choice,
    parse_id,
    parse_text,
    parse_time,
)
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.serialization import RowSerializer, serialize
from appliance.api.views import ApplianceView
from appliance.db.change_log import Audience
from appliance.telemetry import series
from appliance.telemetry.views import MetricHistoryView


# Requires rows of `serializable`.
class SessionSerializer(RowSerializer[Session]):
    allocation_id = serializers.UUIDField(read_only=True)
    node = serializers.CharField(source="node.name", read_only=True, help_text="Name of the node.")
    refused_calls = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Unsupported driver API functions that the program called.",
    )

    compute_mode = serializers.CharField(
        source="allocation.granted_compute_mode",
        read_only=True,
        help_text="Meaning of the percent of its allocation.",
    )
    compute_enforcement = serializers.SerializerMethodField(
        help_text="How its share of the compute is enforced: `enforced`, or why not."
    )
    compute_error_percent = serializers.SerializerMethodField(
        help_text="Received minus granted share, in points of percent; null if unknown."
    )

    class Meta:
        model = Session
        fields = (
            "id",
            "allocation_id",
            "node",
            "state",
            "pid",
            "client_pid",
            "client_address",
            "program",
            "isolation",
            "compute_mode",
            "compute_enforcement",
            "compute_received_percent",
            "compute_error_percent",
            "longest_drain_ms",
            "memory_bytes",
            "launches",
            "bytes_in",
            "bytes_out",
            "end_reason",
            "refused_calls",
            "opened_at",
            "closed_at",
        )

    def get_compute_enforcement(self, session: Session) -> str:
        return str(session.isolation.get("compute_limit", ""))

    def get_compute_error_percent(self, session: Any) -> float | None:
        return error_percent(session.compute_received_percent, session.granted_percent)

    def to_representation(self, instance: Session) -> dict[str, Any]:
        """Replace the counters of open sessions by the newer values in memory."""
        row = super().to_representation(instance)
        if instance.state != SessionState.CLOSED:
            metrics = series.latest_metrics(series_id_of(instance.pk))
            row |= {name: int(metrics[name]) for name in COUNTERS if name in metrics}
        return row


SESSIONS = Resource(
    SessionSerializer,
    {
        "state": ("state", parse_choice(*SessionState.values)),
        "allocation_id": ("allocation_id", parse_id),
        "node": ("node__name", parse_text),
        "closed_since": ("closed_at__gte", parse_time),
        "closed_until": ("closed_at__lt", parse_time),
    },
    CREATED
    | {
        "opened_at": Order("opened_at", kind=datetime),
        "memory_bytes": Order("memory_bytes", kind=int),
        "program": Order("program"),
    },
    rows=lambda user: Session.objects.visible_to(user).serializable(),
)


class SessionListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    get = SESSIONS.lists("List the sessions of all projects that the caller may view.")


class SessionView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    get = SESSIONS.shows("Return one session.")


class SessionMetricHistoryView(MetricHistoryView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    def find_series(self, request: Request, object_id: UUID) -> UUID:
        rows = Session.objects.visible_to(request_user(request))
        return series_id_of(get_object_or_404(rows, pk=object_id).pk)


def session_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield the rows of sessions for the feed."""
    for row in Session.objects.serializable().filter(pk__in=ids):
        project_id = row.allocation.project_id
        yield row.pk, "allocations.view", project_id, serialize(SessionSerializer, row)


hub.register("session", session_rows)
