"""History of one object over time. Which objects have one, upper apps say: each names the view that checks who may see it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.models import Project
from appliance.accounts.permissions import projects_with
from appliance.errors import ApplianceError, Code
from appliance.rest import ApplianceView, caller, refuse_unknown_parameters
from appliance.telemetry import history
from appliance.telemetry.rollups import TIERS, Points

DEFAULT_SECONDS = 3600.0
PARAMETERS = [
    OpenApiParameter("since", datetime, description="Default: an hour before `until`."),
    OpenApiParameter("until", datetime, description="Not included. Default: now."),
    OpenApiParameter(
        "resolution_seconds",
        int,
        enum=[t.resolution_seconds for t in TIERS],
        description="0: as it was sent. Default: what suits.",
    ),
]


class MetricHistorySerializer(serializers.Serializer[dict[str, Any]]):
    metric = serializers.CharField()
    points = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField(), min_length=4, max_length=4),
        help_text="Each: seconds since 1970 at which the step begins, mean, least, most.",
    )


class HistorySerializer(serializers.Serializer[dict[str, Any]]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    resolution_seconds = serializers.IntegerField()
    items = MetricHistorySerializer(many=True)


def seconds_of(name: str, text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise ApplianceError(Code.INVALID, f"{name} must be a time such as 2026-11-22T12:00:00Z.")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def answer(series_id: UUID, request: Request) -> dict[str, Any]:
    refuse_unknown_parameters(request, ["since", "until", "resolution_seconds"])
    now = time.time()
    until = seconds_of("until", request.query_params.get("until"), now + 1)
    since = seconds_of("since", request.query_params.get("since"), until - DEFAULT_SECONDS)
    if since >= until:
        raise ApplianceError(Code.INVALID, "since must be before until.")
    wanted = request.query_params.get("resolution_seconds")
    if wanted is not None and not (wanted.isascii() and wanted.isdigit()):
        raise ApplianceError(Code.INVALID, "resolution_seconds must be a number.")
    tier = history.tier_for(since, until, now, None if wanted is None else int(wanted))
    points = history.points(series_id, tier, since, until)
    return {
        "since": datetime.fromtimestamp(since, UTC), "until": datetime.fromtimestamp(until, UTC), "resolution_seconds": tier.resolution_seconds,
        "items": [{"metric": metric, "points": column(points, i)} for i, metric in enumerate(points.metrics)],
    }  # fmt: skip


def column(points: Points, i: int) -> list[list[float]]:
    rows = zip(
        points.seconds.tolist(),
        points.mean[:, i].tolist(),
        points.least[:, i].tolist(),
        points.most[:, i].tolist(),
        strict=True,
    )
    return [list(row) for row in rows if row[1] == row[1]]


class MetricHistoryView(ApplianceView):
    """GET …/{id}/metrics."""

    privileges: ClassVar[dict[str, str]] = {}

    def find(self, request: Request, object_id: UUID) -> UUID:
        """The series of an object that the caller may see; otherwise Http404."""
        raise NotImplementedError

    @extend_schema(parameters=PARAMETERS, responses=HistorySerializer)
    def get(self, request: Request, object_id: UUID) -> Response:
        """Each metric over time; a reading that was not there has no point."""
        return Response(HistorySerializer(answer(self.find(request, object_id), request)).data)


class ProjectMetricHistoryView(MetricHistoryView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    def find(self, request: Request, object_id: UUID) -> UUID:
        mine = projects_with(caller(request), "allocations.view")
        rows = Project.objects.all() if mine is None else Project.objects.filter(pk__in=mine)
        return get_object_or_404(rows, pk=object_id).pk
