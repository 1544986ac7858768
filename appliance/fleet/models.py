"""Enrolment tokens and node certificates: how a machine becomes a node and stays one."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils import timezone

from appliance.identifiers import uuid7


class EnrolmentToken(models.Model):
    """Single use, 15 minutes; only a hash of the 256-bit secret is kept."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    secret_sha256 = models.CharField(max_length=64, unique=True)
    node = models.ForeignKey(
        "inventory.Node", null=True, on_delete=models.CASCADE, related_name="+"
    )
    """The node that the machine is again; none: it becomes a new one."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    redeemed_at = models.DateTimeField(null=True)
    redeemed_key_sha256 = models.CharField(max_length=64, blank=True)
    """A retry with the same key within 60 s gets the same answer."""
    answer = models.JSONField(null=True)


class SshHostKey(models.Model):
    """The key that a host showed and an operator confirmed. Another one there is a hard stop."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    address = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    key_type = models.CharField(max_length=50)
    sha256 = models.CharField(max_length=64)
    """As OpenSSH prints it, without SHA256: and padding."""
    confirmed_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["address", "port"], name="ssh_host_key_once")
        ]


class NodeCertificate(models.Model):
    serial = models.CharField(max_length=50, primary_key=True)
    node = models.ForeignKey(
        "inventory.Node", on_delete=models.CASCADE, related_name="certificates"
    )
    purpose = models.CharField(
        max_length=10, choices=[("agent", "agent"), ("launcher", "launcher")]
    )
    not_after = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
