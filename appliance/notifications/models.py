"""Mails to users about their allocations and alarms: what to send, and what users want."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from appliance.db.identifiers import uuid7


class NotificationKind(models.TextChoices):
    START = "start"
    """A request that has waited got its GPUs."""
    LIFETIME = "lifetime"
    """The lifetime of an allocation ends soon."""
    RECLAIM = "reclaim"
    """The appliance takes the GPUs back, has done so, or does not after all."""
    ALARM = "alarm"
    """An alarm whose definition names the user was raised or cleared."""


PASSWORD = "password"
"""Kind of the mails about a new password. It is none of those above: users cannot refuse it."""


class Notification(models.Model):
    """A mail. It is sent once for an allocation and a kind, and again after a failure.

    Mails about alarms have the step of the alarm instead of the allocation. Those about an eviction
    that was withdrawn have none, so that the next one has its mail.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="notifications"
    )
    allocation_id = models.UUIDField(null=True)
    alarm_entry_id = models.UUIDField(null=True)
    kind = models.CharField(max_length=20, choices=NotificationKind.choices)
    recipient = models.EmailField(blank=True)
    """Address at the time of the event; empty for the user's address when the mail is sent."""
    subject = models.CharField(max_length=200)
    text = models.TextField()
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(default=timezone.now)
    error = models.CharField(max_length=300, blank=True)
    """Why the last attempt failed."""
    created_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["allocation_id", "kind"], name="notification_once"),
            models.UniqueConstraint(
                fields=["alarm_entry_id", "user"], name="notification_once_for_an_alarm"
            ),
        ]
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["next_attempt_at"],
                name="notification_pending",
                condition=models.Q(sent_at__isnull=True),
            )
        ]


class NotificationCursor(models.Model):
    """The last event that was considered, one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    event_id = models.UUIDField()


class NotificationChoice(models.Model):
    """Kinds of mails that a user does not want. Without a row all are wanted."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="+"
    )
    unwanted = models.JSONField(default=list)
