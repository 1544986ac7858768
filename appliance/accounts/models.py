"""Users, projects, role bindings and API tokens: who may do what."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone

from appliance.identifiers import uuid7


class Role(models.TextChoices):
    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


class User(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    must_change_password = models.BooleanField(default=False)
    password_expires_at = models.DateTimeField(null=True, blank=True)
    """Of a one-time password."""

    REQUIRED_FIELDS: ClassVar[list[str]] = []


class Department(models.Model):
    """Projects that share a quota."""

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
    """A role in one project, or, without a project, on the whole appliance."""

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
    """`bb_<id>.<secret>`; only a hash of the 256-bit secret is kept."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    secret_sha256 = models.CharField(max_length=64)
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
