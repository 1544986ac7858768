"""Tasks and events, newest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.activity import tasks
from appliance.activity.feed import NO_PROJECT, Audience, hub
from appliance.activity.models import Event, Task, TaskLine, TaskState
from appliance.rest import (
    WAIT,
    ApplianceView,
    CursorPage,
    Filter,
    a_time,
    an_id,
    caller,
    filter_parameters,
    filtered,
    one_of,
    refuse_unknown_parameters,
    shown,
    text,
    wait_for,
)  # fmt: skip


class EventSerializer(serializers.ModelSerializer[Event]):
    class Meta:
        model = Event
        fields = ("id", "kind", "path", "object_id", "actor", "message", "data", "created_at")


class TaskSerializer(serializers.ModelSerializer[Task]):
    initiator = serializers.CharField(
        source="initiator.username", default=None, allow_null=True, read_only=True
    )
    parent_id = serializers.UUIDField(
        read_only=True, allow_null=True, help_text="The larger task that it is part of."
    )
    cancellable = serializers.SerializerMethodField()

    class Meta:
        model = Task
        fields = (
            "id", "kind", "state", "path", "initiator", "parent_id", "cancellable", "progress_percent", "message", "error", "result", "version",
            "created_at", "ended_at",
        )  # fmt: skip

    def get_cancellable(self, task: Task) -> bool:
        return tasks.cancellable(task)


class TaskLineSerializer(serializers.ModelSerializer[TaskLine]):
    class Meta:
        model = TaskLine
        fields = ("id", "message", "progress_percent", "created_at")


EVENT_FILTERS: dict[str, tuple[str, Filter]] = {
    "object_id": ("object_id", an_id),
    "path": ("path__startswith", text),
    "kind": ("kind", text),
    "actor": ("actor", text),
    "since": ("created_at__gte", a_time),
    "until": ("created_at__lt", a_time),
}
TASK_FILTERS: dict[str, tuple[str, Filter]] = {
    "state": ("state", one_of(*TaskState.values)),
    "kind": ("kind", text),
    "path": ("path__startswith", text),
    "parent_id": ("parent_id", an_id),
    "initiator": ("initiator__username", text),
}


class EventListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    @extend_schema(
        parameters=filter_parameters(EVENT_FILTERS), responses=EventSerializer(many=True)
    )
    def get(self, request: Request) -> Response:
        rows: QuerySet[Event] = filtered(
            request, Event.objects.visible_to(caller(request)), EVENT_FILTERS
        )
        page = CursorPage()
        return page.get_paginated_response(
            [shown(EventSerializer, row) for row in page.paginate_queryset(rows, request)]
        )


class TaskListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    @extend_schema(parameters=filter_parameters(TASK_FILTERS), responses=TaskSerializer(many=True))
    def get(self, request: Request) -> Response:
        page = CursorPage()
        rows = filtered(
            request,
            Task.objects.visible_to(caller(request)).select_related("initiator"),
            TASK_FILTERS,
        )
        return page.get_paginated_response(
            [shown(TaskSerializer, row) for row in page.paginate_queryset(rows, request)]
        )


def is_over(task_id: UUID) -> bool:
    return not Task.objects.filter(
        pk=task_id, state__in=[TaskState.QUEUED, TaskState.RUNNING]
    ).exists()


def now_of(task_id: UUID) -> dict[str, Any]:
    return shown(TaskSerializer, Task.objects.get(pk=task_id))


class TaskView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    @extend_schema(parameters=[WAIT], responses=TaskSerializer)
    def get(self, request: Request, task_id: UUID) -> Response:
        task = get_object_or_404(Task.objects.visible_to(caller(request)), pk=task_id)

        return wait_for(
            request,
            Response(shown(TaskSerializer, task)),
            "task",
            task_id,
            partial(is_over, task_id),
            partial(now_of, task_id),
        )


class TaskCancelView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "activity.view"}

    @extend_schema(request=None, responses=TaskSerializer)
    def post(self, request: Request, task_id: UUID) -> Response:
        """Who began it may, and who manages what it works on. What was done so far is undone or left, as its kind has it."""
        task = get_object_or_404(Task.objects.visible_to(caller(request)), pk=task_id)
        return Response(shown(TaskSerializer, tasks.cancel(task_id=task.pk, user=caller(request))))


class TaskLogView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    @extend_schema(responses=TaskLineSerializer(many=True))
    def get(self, request: Request, task_id: UUID) -> Response:
        """What it said while it ran, the newest first."""
        refuse_unknown_parameters(request, [])
        task = get_object_or_404(Task.objects.visible_to(caller(request)), pk=task_id)
        page = CursorPage()
        return page.get_paginated_response(
            [
                shown(TaskLineSerializer, row)
                for row in page.paginate_queryset(task.lines.all(), request)
            ]
        )


def event_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    for event in Event.objects.filter(pk__in=ids).order_by("pk"):
        yield event.pk, "activity.view", event.project_id, shown(EventSerializer, event)


def task_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    for task in Task.objects.select_related("initiator").filter(pk__in=ids):
        yield task.pk, "activity.view", task.project_id or NO_PROJECT, shown(TaskSerializer, task)


hub.register("event", event_rows)
hub.register("task", task_rows)
