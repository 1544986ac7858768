"""Tasks and events, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.activity.feed import NO_PROJECT, Audience, hub
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

        def over() -> bool:
            return not Task.objects.filter(pk=task_id, state__in=[TaskState.QUEUED, TaskState.RUNNING]).exists()

        return wait_for(request, Response(shown(TaskSerializer, task)), "task", task_id, over, lambda: shown(TaskSerializer, Task.objects.get(pk=task_id)))


def event_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    for event in Event.objects.filter(pk__in=ids).order_by("pk"):
        yield event.pk, "activity.view", event.project_id, shown(EventSerializer, event)


def task_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    for task in Task.objects.select_related("initiator").filter(pk__in=ids):
        yield task.pk, "activity.view", task.project_id or NO_PROJECT, shown(TaskSerializer, task)


hub.register("event", event_rows)
hub.register("task", task_rows)
