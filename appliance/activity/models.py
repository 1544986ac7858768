"""Events and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from appliance.accounts.permissions import projects_with
from appliance.db.identifiers import uuid7

if TYPE_CHECKING:
    from appliance.accounts.models import User


class EventQuerySet(models.QuerySet["Event"]):
    def visible_to(self, user: User) -> EventQuerySet:
        """Filter to events without a project and events of the projects that the user may view."""
        projects = projects_with(user, "activity.view")
        if projects is None:
            return self
        return self.filter(Q(project_id=None) | Q(project_id__in=projects))


class Event(models.Model):
    """A record of something that happened.

    Holds the tree path of its object, so that filters need no model of another app.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=60)
    path = models.CharField(max_length=300)
    """Such as nodes/<id>/gpus/<id>."""
    object_id = models.UUIDField(null=True)
    project_id = models.UUIDField(null=True)
    actor = models.CharField(max_length=150)
    message = models.CharField(max_length=500)
    data = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=timezone.now)

    objects = EventQuerySet.as_manager()

    class Meta:
        # Serves the filter ?object_id=.
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["object_id"], name="event_by_object")
        ]


class TaskState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskQuerySet(models.QuerySet["Task"]):
    def visible_to(self, user: User) -> TaskQuerySet:
        """Filter to tasks of projects that the user may view, and own tasks without a project.

        A drain starts a task in the project of each allocation on the node, and names it.
        """
        projects = projects_with(user, "activity.view")
        if projects is None:
            return self
        return self.filter(Q(initiator=user, project_id=None) | Q(project_id__in=projects))


class Task(models.Model):
    """A long operation with progress, a log and a result."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=60)
    state = models.CharField(max_length=20, choices=TaskState.choices, default=TaskState.QUEUED)
    path = models.CharField(max_length=300)
    project_id = models.UUIDField(null=True)
    initiator = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    progress_percent = models.PositiveSmallIntegerField(default=0)
    message = models.CharField(max_length=500, blank=True)
    error = models.JSONField(null=True)
    result = models.JSONField(null=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        # Serve the lookup of the running task of an object, and retention.
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["path"], name="task_by_path"),
            models.Index(
                fields=["ended_at"], name="task_by_end", condition=Q(ended_at__isnull=False)
            ),
        ]


class TaskLine(models.Model):
    """One message in the log of a task, in the order of the primary key."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="lines")
    message = models.CharField(max_length=500)
    progress_percent = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)
