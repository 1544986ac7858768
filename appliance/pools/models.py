"""Pools: named sets of GPUs that allocations draw from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from django.db import models
from django.utils import timezone

from appliance.accounts.permissions import can, projects_with
from appliance.identifiers import uuid7
from appliance.pools.subject_kind import SubjectKind

if TYPE_CHECKING:
    from appliance.accounts.models import User

DEFAULT_POOL = "default"


def default_policies() -> list[str]:
    return ["pack"]


class PoolQuerySet(models.QuerySet["Pool"]):
    def visible_to(self, user: User) -> PoolQuerySet:
        """Pools that are kept for some projects are seen by those projects' people only."""
        mine = projects_with(user, "pools.view")
        return (
            self
            if mine is None
            else self.exclude(pk__in=self.kept_from(mine))
            if mine
            else self.none()
        )

    def kept(self) -> PoolQuerySet:
        """Those that are for some projects only."""
        return self.exclude(project_ids=[])

    def kept_from(self, project_ids: Collection[UUID]) -> list[UUID]:
        """The pools that are kept for other projects than these."""
        return [
            pk
            for pk, kept_for in self.kept().values_list("pk", "project_ids")
            if not open_to(kept_for, project_ids)
        ]


def open_to(kept_for: Sequence[str], project_ids: Collection[UUID]) -> bool:
    return bool(project_ids) and (not kept_for or any(str(p) in kept_for for p in project_ids))


class Pool(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    labels = models.JSONField(default=dict, blank=True)
    policies = models.JSONField(default=default_policies)
    """Names of placement policies; the next decides where the one before sees no difference."""
    fallbacks = models.JSONField(default=list, blank=True)
    """Ids of the pools that are tried after this one, in order."""
    max_lifetime_seconds = models.PositiveIntegerField(null=True, blank=True)
    """How long an allocation may live after it became active; null: for ever."""
    max_idle_seconds = models.PositiveIntegerField(null=True, blank=True)
    network = models.CharField(max_length=50, blank=True)
    """Of a node's endpoints, those of this network are tried first."""
    """How long an active allocation may go without a launch or a copy; null: for ever."""
    project_ids = models.JSONField(default=list, blank=True)
    """Ids of the projects it is kept for; empty: all."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects = PoolQuerySet.as_manager()

    @property
    def path(self) -> str:
        return f"pools/{self.pk}"

    @property
    def audience(self) -> frozenset[UUID] | None:
        """The projects whose people may see and use it; None: everybody's."""
        return frozenset(map(UUID, self.project_ids)) or None


class QuotaQuerySet(models.QuerySet["Quota"]):
    def visible_to(self, user: User) -> QuotaQuerySet:
        return self if can(user, "pools.view") else self.none()


class Quota(models.Model):
    """What a user, project or department is owed, and the most it gets. In percent of a GPU's compute: 230 are 2.3 GPUs."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    subject_kind = models.CharField(
        max_length=20, choices=[(k.value, k.value) for k in SubjectKind]
    )
    subject_id = models.UUIDField()
    quota_percent = models.PositiveIntegerField(null=True, blank=True)
    """Null: nothing is owed; it lives on what others leave."""
    limit_percent = models.PositiveIntegerField(null=True, blank=True)
    borrows = models.BooleanField(default=True)
    """May go beyond its quota while others do not use theirs."""
    weight = models.FloatField(default=1.0)
    """Twice the weight, twice the share of what is over."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects = QuotaQuerySet.as_manager()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["subject_kind", "subject_id"], name="quota_once")
        ]

    @property
    def path(self) -> str:
        return f"quotas/{self.pk}"


class ReservationQuerySet(models.QuerySet["Reservation"]):
    def visible_to(self, user: User) -> ReservationQuerySet:
        return self if can(user, "pools.view") else self.none()


class Reservation(models.Model):
    """GPUs of a pool that a project will have between two times."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="reservations")
    project = models.ForeignKey(
        "accounts.Project", on_delete=models.CASCADE, related_name="reservations"
    )
    gpu_count = models.PositiveSmallIntegerField()
    percent = models.PositiveSmallIntegerField(default=100)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects = ReservationQuerySet.as_manager()

    @property
    def path(self) -> str:
        return f"pools/{self.pool_id}/reservations/{self.pk}"


class ProjectUse(models.Model):
    """What a project has had lately: half of it is forgotten every half-life."""

    project = models.OneToOneField("accounts.Project", primary_key=True, on_delete=models.CASCADE)
    percent_seconds = models.FloatField(default=0.0)
    counted_at = models.DateTimeField(default=timezone.now)
