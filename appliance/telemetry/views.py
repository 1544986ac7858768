"""REST resource metric history.

Other apps derive a view for each kind of object and check the caller's permission in it.
"""

from __future__ import annotations

import math
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.models import Project
from appliance.accounts.permissions import projects_with
from appliance.api.errors import ApplianceError, Code
from appliance.api.filters import reject_unknown_parameters
from appliance.api.views import ApplianceView
from appliance.telemetry.tiers import TIERS

if TYPE_CHECKING:
    from appliance.telemetry.rollups import Points

DEFAULT_SECONDS = 3600.0
LATEST_SECONDS = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
RESOLUTION = re.compile(r"[0-9]{1,9}")
PARAMETERS = [
    OpenApiParameter(
        "since",
        datetime,
        description="Start of the period. Defaults to one hour before `until`.",
    ),
    OpenApiParameter(
        "until", datetime, description="End of the period, exclusive. Defaults to now."
    ),
    OpenApiParameter(
        "resolution_seconds",
        int,
        enum=[t.resolution_seconds for t in TIERS],
        description=(
            "Length of the steps in seconds; 0 for single samples."
            " Defaults to the finest resolution with a moderate number of points."
        ),
    ),
]


class MetricHistorySerializer(serializers.Serializer[dict[str, Any]]):
    metric = serializers.CharField()
    points = serializers.ListField(
        child=serializers.ListField(child=serializers.FloatField(), min_length=4, max_length=4),
        help_text=(
            "Each point: Unix time in seconds at which the step begins, mean, minimum, maximum."
        ),
    )


class HistorySerializer(serializers.Serializer[dict[str, Any]]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    resolution_seconds = serializers.IntegerField()
    items = MetricHistorySerializer(many=True)


def parse_timestamp(name: str, text: str | None, default: float) -> float:
    """Return the Unix time of an ISO 8601 parameter; UTC if it has no offset.

    Samples have times from 1970 on; the last year has no later one to calculate with.
    """
    if text is None:
        return default
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise ApplianceError(
            Code.INVALID, f"{name} must be a time such as 2026-11-22T12:00:00Z (was {text[:40]})."
        )
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return min(max(seconds, 0.0), LATEST_SECONDS)


def read_history(series_id: UUID, request: Request) -> dict[str, Any]:
    """Return the content of `HistorySerializer` for the period in the request's parameters."""
    from appliance.telemetry import history  # imports numpy, which the controller does without

    reject_unknown_parameters(request, ["since", "until", "resolution_seconds"])
    now = time.time()
    until = parse_timestamp("until", request.query_params.get("until"), now + 1)
    since = parse_timestamp("since", request.query_params.get("since"), until - DEFAULT_SECONDS)
    if since >= until:
        raise ApplianceError(Code.INVALID, "since must be earlier than until.")
    wanted = request.query_params.get("resolution_seconds")
    if wanted is not None and not RESOLUTION.fullmatch(wanted):
        raise ApplianceError(
            Code.INVALID, f"resolution_seconds must be a number (was {wanted[:40]})."
        )
    tier = history.choose_tier(since, until, now, None if wanted is None else int(wanted))
    points = history.read_points(series_id, tier, since, until)
    return {
        "since": datetime.fromtimestamp(since, UTC),
        "until": datetime.fromtimestamp(until, UTC),
        "resolution_seconds": tier.resolution_seconds,
        "items": [
            {"metric": metric, "points": found}
            for i, metric in enumerate(points.metrics)
            if (found := metric_points(points, i))
        ],
    }


def metric_points(points: Points, i: int) -> list[list[float]]:
    """Return time, mean, minimum and maximum of one metric, without missing values."""
    rows = zip(
        points.seconds.tolist(),
        points.mean[:, i].tolist(),
        points.minimum[:, i].tolist(),
        points.maximum[:, i].tolist(),
        strict=True,
    )
    return [list(row) for row in rows if not math.isnan(row[1])]


class MetricHistoryView(ApplianceView):
    """Base of the views GET …/{id}/metrics."""

    privileges: ClassVar[dict[str, str]] = {}

    def find_series(self, request: Request, object_id: UUID) -> UUID:
        """Return the series of an object that the caller may view; otherwise raise Http404."""
        raise NotImplementedError

    @extend_schema(parameters=PARAMETERS, responses=HistorySerializer)
    def get(self, request: Request, object_id: UUID) -> Response:
        """Return each metric of the object over time. A missing value has no point."""
        series_id = self.find_series(request, object_id)
        return Response(HistorySerializer(read_history(series_id, request)).data)


class ProjectMetricHistoryView(MetricHistoryView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    def find_series(self, request: Request, object_id: UUID) -> UUID:
        visible = projects_with(request_user(request), "allocations.view")
        rows = Project.objects.all() if visible is None else Project.objects.filter(pk__in=visible)
        return get_object_or_404(rows, pk=object_id).pk
