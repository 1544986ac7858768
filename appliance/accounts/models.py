"""Users, groups, departments, projects, roles, role bindings and API tokens."""

from __future__ import annotations

from itertools import combinations
from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone

from appliance.api.account_names import comparison_key
from appliance.db.identifiers import uuid7
from appliance.db.unique_with_nulls import unique_with_nulls


class Role(models.TextChoices):
    VIEWER = "viewer"
    USER = "user"
    OPERATOR = "operator"
    ADMINISTRATOR = "administrator"


class Source(models.TextChoices):
    """Directory or provider that checks a person's identity, in place of a local password."""

    LDAP = "ldap", "the directory"
    OIDC = "oidc", "the identity provider"


class NameKeyField(models.CharField):  # type: ignore[type-arg]  # has none at run time
    """Text by which the name of a new account is compared with others (api/account_names.py)."""

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        if add and isinstance(model_instance, User):
            setattr(model_instance, self.attname, comparison_key(model_instance.username))
        return super().pre_save(model_instance, add)


class User(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name_key = NameKeyField(max_length=1000, unique=True, null=True, editable=False)
    """Null for accounts of earlier versions whose name is the same as that of an older account."""
    must_change_password = models.BooleanField(default=False)
    password_expires_at = models.DateTimeField(null=True, blank=True)
    """End of a one-time password; null for a password that the user chose."""

    source = models.CharField(max_length=10, choices=Source.choices, blank=True, default="")
    """Directory that checks the password. Empty: the appliance checks it."""
    second_factor_since = models.DateTimeField(null=True, blank=True)
    """When the second factor was confirmed; null without one."""

    version = models.PositiveIntegerField(default=1)

    REQUIRED_FIELDS: ClassVar[list[str]] = []

    @property
    def is_service(self) -> bool:
        """Return whether the account is of a program, which has tokens only."""
        return not self.source and not self.has_usable_password()


class Group(models.Model):
    """Users and other groups that have roles together."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.name


class GroupMember(models.Model):
    """A user or a group in a group. Groups form no circle (accounts/groups.py)."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    group = models.ForeignKey(Group, on_delete=models.CASCADE, related_name="members")
    user = models.ForeignKey(
        User, null=True, on_delete=models.CASCADE, related_name="group_memberships"
    )
    member_group = models.ForeignKey(
        Group, null=True, on_delete=models.CASCADE, related_name="group_memberships"
    )
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            unique_with_nulls(ids=["group", "user", "member_group"], name="group_member_once"),
            models.CheckConstraint(
                condition=models.Q(user__isnull=False) ^ models.Q(member_group__isnull=False),
                name="group_member_is_user_or_group",
            ),
        ]


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


class CustomRole(models.Model):
    """A role that administrators have added to those of `Role`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    privileges = models.JSONField(default=list)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)


BINDING_PLACES = ("project", "department", "site", "node", "gpu", "pool")
"""Columns of a role binding that name its place. One of them is set, or none."""


def in_one_place() -> models.Q:
    condition = models.Q()
    for pair in combinations(BINDING_PLACES, 2):
        first, second = (models.Q(**{f"{column}__isnull": True}) for column in pair)
        condition &= first | second
    return condition


class RoleBinding(models.Model):
    """A role of a user or group at a place in the tenancy or in the inventory, or everywhere.

    It holds on the whole appliance if all of BINDING_PLACES are null.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    group = models.ForeignKey(
        Group, null=True, blank=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    department = models.ForeignKey(
        Department, null=True, blank=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    site = models.ForeignKey(
        "inventory.Site", null=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    node = models.ForeignKey(
        "inventory.Node", null=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    gpu = models.ForeignKey(
        "inventory.Gpu", null=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    pool = models.ForeignKey(
        "pools.Pool", null=True, on_delete=models.CASCADE, related_name="role_bindings"
    )
    role = models.CharField(max_length=100)
    """Name of a built-in or custom role."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            unique_with_nulls(
                ids=["user", "group", *BINDING_PLACES], others=["role"], name="role_binding_once"
            ),
            models.CheckConstraint(
                condition=models.Q(user__isnull=False) ^ models.Q(group__isnull=False),
                name="role_binding_of_user_or_group",
            ),
            models.CheckConstraint(condition=in_one_place(), name="role_binding_in_one_place"),
        ]


class ApiToken(models.Model):
    """An API token. Its text is `bb_<id>.<secret>`; the row holds only a hash of the secret.

    The token ends when its user has another password or is inactive. Its row is deleted then,
    unless other code than this package changed the user.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    secret_sha256 = models.CharField(max_length=64)
    password_sha256 = models.CharField(max_length=64)
    """Digest of `User.password` when the token was created."""
    scopes = models.JSONField(default=list)
    """Names of the privileges that the token may use; all of its user if empty."""
    networks = models.JSONField(default=list)
    """Networks, such as 10.0.0.0/8, from which the token is valid; all if empty."""
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    is_sign_in = models.BooleanField(default=False)
    """A sign-in with the password, or a command on the appliance's machine, has made it."""
    signed_in_at = models.DateTimeField(null=True, blank=True)
    """When its user has proved who they are; null for tokens of programs."""
    made_with = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="made_tokens"
    )
    """The token that has made it and ends it; null if that one was of a sign-in."""
    last_used_at = models.DateTimeField(null=True, blank=True)
    """Minute of the last use, see accounts/token_uses.py."""
    last_used_address = models.CharField(max_length=45, blank=True, default="")

    @property
    def is_limited(self) -> bool:
        """Return whether the token permits less than its user's password."""
        return bool(self.scopes or self.networks)

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["expires_at"],
                name="api_token_by_end",
                condition=models.Q(expires_at__isnull=False),
            )
        ]


class IdempotencyKey(models.Model):
    """The stored response of a request with an Idempotency-Key.

    It commits in one transaction with the effect of the request.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE)
    key = models.CharField(max_length=200)
    request_sha256 = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    answer = models.JSONField()
    """The body of the response, or `{"sealed": TEXT}` for one with a secret."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "activity_idempotencykey"  # from when the class was in another package
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["user", "key"], name="idempotency_key_once")
        ]
