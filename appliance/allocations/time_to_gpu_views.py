"""REST view of the time from request to active allocation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.models import Project
from appliance.accounts.permissions import projects_with
from appliance.allocations import time_to_gpu
from appliance.api.errors import Code
from appliance.api.filters import parse_text, parse_time, reject_unknown_parameters
from appliance.api.views import ApplianceView, ErrorCodes


class TimeToGpuClassSerializer(serializers.Serializer[time_to_gpu.Statistics]):
    name = serializers.CharField(source="service_class.name", help_text="Service class.")
    least_priority = serializers.IntegerField(
        source="service_class.least_priority", help_text="Lowest priority of the class."
    )
    target_seconds = serializers.FloatField(
        source="service_class.target_seconds", allow_null=True, help_text="Null: no target."
    )
    count = serializers.IntegerField(help_text="Number of allocations that became active.")
    p50_seconds = serializers.FloatField(allow_null=True)
    p90_seconds = serializers.FloatField(allow_null=True)
    p99_seconds = serializers.FloatField(allow_null=True)
    within_target_share = serializers.FloatField(
        allow_null=True, help_text="Share of allocations within the target, from 0 to 1."
    )
    queued = serializers.IntegerField(help_text="Number of requests that are queued now.")
    longest_queued_seconds = serializers.FloatField(
        allow_null=True, help_text="Age of the oldest queued request."
    )


class TimeToGpuSerializer(serializers.Serializer[dict[str, Any]]):
    since = serializers.DateTimeField(help_text="Start of the covered period.")
    until = serializers.DateTimeField()
    items = TimeToGpuClassSerializer(many=True)


class TimeToGpuView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}
    error_codes: ClassVar[ErrorCodes] = {"GET": (Code.NOT_FOUND,)}

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "since", datetime, description="Earliest time of the request; default: a day ago."
            ),
            OpenApiParameter(
                "until", datetime, description="Latest time of the request; default: now."
            ),
            OpenApiParameter(
                "project",
                str,
                description="Name of a project; default: all projects that the caller may view.",
            ),
        ],
        responses=TimeToGpuSerializer,
    )
    def get(self, request: Request) -> Response:
        """Return the time from request to active allocation by service class.

        A class may have a target; the share of allocations within the target is included.
        """
        reject_unknown_parameters(request, ["since", "until", "project"])
        now, parameters = timezone.now(), request.query_params
        since = (
            parse_time(parameters["since"]) if "since" in parameters else now - timedelta(days=1)
        )
        until = parse_time(parameters["until"]) if "until" in parameters else now
        projects = selected_projects(request)
        items, start = time_to_gpu.measure(since=since, until=until, projects=projects, now=now)
        return Response(TimeToGpuSerializer({"since": start, "until": until, "items": items}).data)


def selected_projects(request: Request) -> Sequence[UUID] | None:
    """Return the projects to include; None means all. Raises Http404 for other projects."""
    visible = projects_with(request_user(request), "allocations.view")
    name = request.query_params.get("project")
    if name is None:
        return visible
    project_id = Project.objects.filter(name=parse_text(name)).values_list("pk", flat=True).first()
    if project_id is None or (visible is not None and project_id not in visible):
        raise Http404
    return [project_id]
