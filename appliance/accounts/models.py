"""Users, departments, projects, role bindings and API tokens."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone

from appliance.db.identifiers import uuid7


class Role(models.TextChoices):
    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


class User(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    must_change_password = models.BooleanField(default=False)
    password_expires_at = models.DateTimeField(null=True, blank=True)
    """End of a one-time password; null for a password that the user chose."""

    REQUIRED_FIELDS: ClassVar[list[str]] = []


class Department(models.Model):
    """A group of projects that share quotas and limits."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name


class Project(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    department = models.ForeignKey(
        Department, null=True, blank=True, on_delete=models.SET_NULL, related_name="projects"
    )
    labels = models.JSONField(default=dict, blank=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name


class RoleBinding(models.Model):
    """A role of a user in one project, or on the whole appliance if the project is null."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="role_bindings")
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    role = models.CharField(max_length=20, choices=Role.choices)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["user", "project", "role"], name="role_binding_once", nulls_distinct=False
            )
        ]


class ApiToken(models.Model):
    """An API token. Its text is `bb_<id>.<secret>`; the row holds only a hash of the secret.

    The token ends when its user has another password or is inactive.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    secret_sha256 = models.CharField(max_length=64)
    password_sha256 = models.CharField(max_length=64)
    """Digest of `User.password` when the token was created."""
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["expires_at"],
                name="api_token_by_end",
                condition=models.Q(expires_at__isnull=False),
            )
        ]
