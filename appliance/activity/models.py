"""What happened and what is being done: events, tasks, and answers kept for repeated requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from appliance.accounts.permissions import projects_with
from appliance.identifiers import uuid7

if TYPE_CHECKING:
    from appliance.accounts.models import User


class EventQuerySet(models.QuerySet["Event"]):
    def visible_to(self, user: User) -> EventQuerySet:
        """Events of the inventory for all who may see it; those of a project for its members."""
        projects = projects_with(user, "activity.view")
        if projects is None:
            return self
        return self.filter(Q(project_id=None) | Q(project_id__in=projects))


class Event(models.Model):
    """Carries its object's tree path, so that no upper model is needed to show or filter it."""

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
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["object_id"], name="event_by_object")
        ]  # an object's history


class TaskState(models.TextChoices):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskQuerySet(models.QuerySet["Task"]):
    def visible_to(self, user: User) -> TaskQuerySet:
        projects = projects_with(user, "activity.view")
        return (
            self
            if projects is None
            else self.filter(Q(initiator=user) | Q(project_id__in=projects))
        )


class Task(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=60)
    state = models.CharField(max_length=20, choices=TaskState.choices, default=TaskState.QUEUED)
    path = models.CharField(max_length=300)
    project_id = models.UUIDField(null=True)
    initiator = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="children"
    )
    """The larger work that it is part of."""
    progress_percent = models.PositiveSmallIntegerField(default=0)
    message = models.CharField(max_length=500, blank=True)
    error = models.JSONField(null=True)
    result = models.JSONField(null=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True)

    objects = TaskQuerySet.as_manager()

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["path"], name="task_by_path")
        ]  # what is under way on an object


class TaskLine(models.Model):
    """What a task said while it ran, in order of the key."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="lines")
    message = models.CharField(max_length=500)
    progress_percent = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)


class IdempotencyKey(models.Model):
    """Commits with the effect that it names, so a repeated request finds either both or neither."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    key = models.CharField(max_length=200)
    request_sha256 = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    answer = models.JSONField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_once")
        ]
