"""REST resources event and task, and their readers for the feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.resources import Resource
from appliance.activity import tasks
from appliance.activity.feed import NO_PROJECT, hub
from appliance.activity.models import Event, Task, TaskLine, TaskState
from appliance.api.errors import Code
from appliance.api.filters import (
    parse_choice,
    parse_id,
    parse_text,
    parse_time,
)
from appliance.api.listing import Listing
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.api.wait import WAIT_PARAMETER, register_waitable, wait_if_requested
from appliance.db.change_log import Audience


class EventSerializer(serializers.ModelSerializer[Event]):
    class Meta:
        model = Event
        fields = ("id", "kind", "path", "object_id", "actor", "message", "data", "created_at")


class TaskSerializer(serializers.ModelSerializer[Task]):
    initiator = serializers.CharField(
        source="initiator.username", default=None, allow_null=True, read_only=True
    )
    parent_id = serializers.UUIDField(
        read_only=True, allow_null=True, help_text="The id of the task that this task is part of."
    )
    cancellable = serializers.SerializerMethodField(
        help_text="Whether the task is running and its kind can be cancelled."
    )

    class Meta:
        model = Task
        fields = (
            "id",
            "kind",
            "state",
            "path",
            "initiator",
            "parent_id",
            "cancellable",
            "progress_percent",
            "message",
            "error",
            "result",
            "version",
            "created_at",
            "ended_at",
        )

    def get_cancellable(self, task: Task) -> bool:
        return tasks.cancellable(task)


class TaskLineSerializer(serializers.ModelSerializer[TaskLine]):
    class Meta:
        model = TaskLine
        fields = ("id", "message", "progress_percent", "created_at")


EVENTS = Resource(
    EventSerializer,
    {
        "object_id": ("object_id", parse_id),
        "path": ("path__startswith", parse_text),
        "kind": ("kind", parse_text),
        "actor": ("actor", parse_text),
        "since": ("created_at__gte", parse_time),
        "until": ("created_at__lt", parse_time),
    },
    rows=Event.objects.visible_to,
)
TASKS = Resource(
    TaskSerializer,
    {
        "state": ("state", parse_choice(*TaskState.values)),
        "kind": ("kind", parse_text),
        "path": ("path__startswith", parse_text),
        "parent_id": ("parent_id", parse_id),
        "initiator": ("initiator__username", parse_text),
        "ended_since": ("ended_at__gte", parse_time),
        "ended_until": ("ended_at__lt", parse_time),
    },
    rows=lambda user: Task.objects.visible_to(user).select_related("initiator"),
    kind=tasks.TASKS,
)
TASK_LINES = Listing(TaskLineSerializer)


class EventListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    get = EVENTS.lists("List events, newest first.")


class TaskListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    get = TASKS.lists("List tasks, newest first.")


def task_state(task_id: UUID) -> str | None:
    return Task.objects.filter(pk=task_id).values_list("state", flat=True).first()


register_waitable("task", task_state)


class TaskView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    @extend_schema(parameters=[WAIT_PARAMETER], responses=detail_of(TaskSerializer))
    def get(self, request: Request, task_id: UUID) -> Response:
        """Return a task. With `wait`, the response is delayed until the task has ended."""
        task = get_object_or_404(Task.objects.visible_to(request_user(request)), pk=task_id)
        allowed = tasks.TASKS.actions_of(request_user(request), task)
        return wait_if_requested(
            request,
            Response(serialize(TaskSerializer, task) | {"actions": allowed}),
            "task",
            task_id,
            [TaskState.QUEUED, TaskState.RUNNING],
        )


class TaskCancelView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": tasks.CANCEL.privilege}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.NOT_SUPPORTED,),
    }
    without_body: ClassVar[bool] = True

    @extend_schema(request=None, responses=TaskSerializer)
    def post(self, request: Request, task_id: UUID) -> Response:
        """Cancel a running task.

        Its initiator and operators may cancel it. The kind of the task decides whether its
        effects so far are rolled back.
        """
        # No If-Match: the version of a running task changes with its progress.
        user = request_user(request)
        get_object_or_404(TASKS.rows(user), pk=task_id)
        return Response(TASKS.body(user, tasks.cancel(task_id=task_id, user=user)))


class TaskLogView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "activity.view"}

    @extend_schema(parameters=TASK_LINES.parameters, responses=TaskLineSerializer(many=True))
    def get(self, request: Request, task_id: UUID) -> Response:
        """List the log messages of a task, newest first."""
        task = get_object_or_404(Task.objects.visible_to(request_user(request)), pk=task_id)
        return TASK_LINES.respond(request, task.lines.all())


def read_events(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield id, privilege, audience and REST body of each event for the feed."""
    for event in Event.objects.filter(pk__in=ids).order_by("pk"):
        yield event.pk, "activity.view", event.project_id, serialize(EventSerializer, event)


def read_tasks(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield id, privilege, audience and REST body of each task for the feed."""
    for task in Task.objects.select_related("initiator").filter(pk__in=ids):
        yield (
            task.pk,
            "activity.view",
            task.project_id or NO_PROJECT,
            serialize(TaskSerializer, task),
        )


hub.register("event", read_events)
hub.register("task", read_tasks)
