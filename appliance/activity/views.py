"""Tasks and events, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.activity.feed import NO_PROJECT, hub
from appliance.activity.models import Event, Task, TaskState
from appliance.rest import WAIT, ApplianceView, CursorPage, caller, refuse_unknown_parameters, shown, wait_for


class EventSerializer(serializers.ModelSerializer[Event]):
    class Meta:
        model = Event
        fields = ("id", "kind", "path", "object_id", "actor", "message", "data", "created_at")


class TaskSerializer(serializers.ModelSerializer[Task]):
    initiator = serializers.CharField(source="initiator.username", default=None, read_only=True)

    class Meta:
        model = Task
        fields = ("id", "kind", "state", "path", "initiator", "progress_percent", "message", "error", "result", "version", "created_at", "ended_at")


class EventListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    @extend_schema(parameters=[OpenApiParameter("object_id", UUID)], responses=EventSerializer(many=True))
    def get(self, request: Request) -> Response:
        refuse_unknown_parameters(request, ["object_id"])
        rows: QuerySet[Event] = Event.objects.visible_to(caller(request))
        if wanted := request.query_params.get("object_id"):
            rows = rows.filter(object_id=wanted)
        page = CursorPage()
        return page.get_paginated_response([shown(EventSerializer, row) for row in page.paginate_queryset(rows, request)])


class TaskListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    @extend_schema(responses=TaskSerializer(many=True))
    def get(self, request: Request) -> Response:
        refuse_unknown_parameters(request, [])
        page = CursorPage()
        rows = Task.objects.visible_to(caller(request)).select_related("initiator")
        return page.get_paginated_response([shown(TaskSerializer, row) for row in page.paginate_queryset(rows, request)])


class TaskView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    @extend_schema(parameters=[WAIT], responses=TaskSerializer)
    def get(self, request: Request, task_id: UUID) -> Response:
        task = get_object_or_404(Task.objects.visible_to(caller(request)), pk=task_id)

        def look() -> tuple[bool, Mapping[str, Any]]:
            now = Task.objects.select_related("initiator").get(pk=task_id)
            return now.state not in (TaskState.QUEUED, TaskState.RUNNING), shown(TaskSerializer, now)

        return wait_for(request, Response(shown(TaskSerializer, task)), "task", task_id, look)


def event_row(event_id: UUID) -> tuple[str, UUID | None, Mapping[str, Any]] | None:
    event = Event.objects.filter(pk=event_id).first()
    return ("activity.view", event.project_id, shown(EventSerializer, event)) if event else None


def task_row(task_id: UUID) -> tuple[str, UUID | None, Mapping[str, Any]] | None:
    task = Task.objects.select_related("initiator").filter(pk=task_id).first()
    return ("activity.view", task.project_id or NO_PROJECT, shown(TaskSerializer, task)) if task else None


hub.register("event", event_row)
hub.register("task", task_row)
