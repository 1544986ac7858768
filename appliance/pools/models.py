"""Pools of GPUs, quotas, reservations and the past use of projects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from appliance.accounts.models import Project
from appliance.accounts.permissions import inventory_places, projects_with
from appliance.db.change_log import NO_ID
from appliance.db.identifiers import uuid7
from appliance.pools.isolation import IsolationLevel
from appliance.pools.subject_kind import SubjectKind

if TYPE_CHECKING:
    from appliance.accounts.models import User

DEFAULT_POOL = "default"
YEAR = [MaxValueValidator(366 * 86400)]


def default_policies() -> list[str]:
    return ["pack"]


class PoolQuerySet(models.QuerySet["Pool"]):
    def visible_to(self, user: User) -> PoolQuerySet:
        """Exclude pools that are restricted to projects of other users.

        A pool to which a binding of the user grants the view is visible in any case.
        """
        projects = projects_with(user, "pools.view")
        if projects is None:
            return self
        places = inventory_places(user, "pools.view")
        if not projects:
            return self.filter(pk__in=places) if places else self.none()
        hidden = set(self.restricted_from(projects)) - places
        return self.exclude(pk__in=hidden)

    def oldest(self, *, simulated: bool) -> Pool | None:
        """Return the pool that new GPUs of simulated or of other nodes join, if there is one."""
        return self.filter(simulated=simulated).order_by("created_at").first()

    def restricted(self) -> PoolQuerySet:
        """Keep pools that are restricted to some projects."""
        return self.exclude(project_ids=[])

    def restricted_from(self, project_ids: Collection[UUID]) -> list[UUID]:
        """Return the pools that none of these projects may use."""
        return [
            pk
            for pk, allowed in self.restricted().values_list("pk", "project_ids")
            if not is_open_to(allowed, project_ids)
        ]


def is_open_to(allowed: Sequence[str], project_ids: Collection[UUID]) -> bool:
    """Return whether one of the projects may use a pool; an empty `allowed` means all may."""
    return bool(project_ids) and (not allowed or any(str(p) in allowed for p in project_ids))


class Pool(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    labels = models.JSONField(default=dict, blank=True)
    policies = models.JSONField(default=default_policies)
    """Names of placement policies; a later policy breaks the ties of the earlier ones."""
    fallbacks = models.JSONField(default=list, blank=True)
    """Ids of the pools to try after this one, in order."""
    max_lifetime_seconds = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=YEAR,
        help_text="Time from activation of an allocation to its eviction; 0: unlimited, shown as"
        " null.",
    )
    max_idle_seconds = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=YEAR,
        help_text="Time without a launch or copy until eviction; 0: unlimited, shown as null.",
    )
    max_late_seconds = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=YEAR,
        help_text="Time for which work of a session may run beyond its turn while others wait for"
        " the GPU, until the session ends; 0: unlimited, shown as null.",
    )
    network = models.CharField(
        max_length=50,
        blank=True,
        help_text="Clients try the endpoints of this network first; empty: no preference.",
    )
    admit_new_gpus = models.BooleanField(
        default=False,
        help_text="GPUs that enrolled nodes report later join the pool without an operator."
        " Has an effect in the default pool, which new GPUs join.",
    )
    required_isolation = models.CharField(
        max_length=20,
        choices=IsolationLevel.choices,
        default=IsolationLevel.ANY,
        help_text="Isolation of sessions that nodes need for new allocations. `process`: a fixed"
        " set of system calls; `namespaces`: also files, processes and a network of their own;"
        " `full`: also a user of their own and limits of memory, threads and processor time.",
    )
    project_ids = models.JSONField(default=list, blank=True)
    """Ids of the projects that may use the pool; empty: all."""
    simulated = models.BooleanField(default=False)
    """Its GPUs are of simulated nodes. GPUs of other nodes are in other pools."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects = PoolQuerySet.as_manager()

    def places(self) -> frozenset[UUID | None]:
        """Return where a role binding covers this object: itself."""
        return frozenset({self.pk})

    @property
    def path(self) -> str:
        return f"pools/{self.pk}"

    @property
    def registered_gpus(self) -> list[tuple[int, int]]:
        """Bytes of each GPU and of a context on it, also of unreachable nodes. Reads rows."""
        rows = self.gpus.filter(duplicate_of=None).exclude(node__state="removed")
        return list(rows.values_list("memory_bytes", "context_bytes"))

    @property
    def audience(self) -> frozenset[UUID] | None:
        """Projects whose members may view and use the pool; None: all."""
        return frozenset(map(UUID, self.project_ids)) or None

    @property
    def event_project(self) -> UUID | None:
        """Project of events that name the pool.

        Those of a restricted pool have none that exists, so only appliance-wide roles show them.
        """
        return NO_ID if self.project_ids else None


class QuotaQuerySet(models.QuerySet["Quota"]):
    def visible_to(self, user: User) -> QuotaQuerySet:
        """Keep the quotas that bind the user: of the projects, their departments and the account.

        Those of others name projects and people that the user may not view.
        """
        projects = projects_with(user, "pools.view")
        if projects is None:
            return self
        if not projects:
            return self.none()
        departments = Project.objects.filter(pk__in=projects).values("department_id")
        return self.filter(
            Q(subject_kind=SubjectKind.PROJECT, subject_id__in=projects)
            | Q(subject_kind=SubjectKind.DEPARTMENT, subject_id__in=departments)
            | Q(subject_kind=SubjectKind.USER, subject_id=user.pk)
        )


class Quota(models.Model):
    """Quota and limit of a user, project or department, in percent: 230 means 2.3 GPUs."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    subject_kind = models.CharField(
        max_length=20, choices=[(k.value, k.value) for k in SubjectKind]
    )
    subject_id = models.UUIDField()
    quota_percent = models.PositiveIntegerField(null=True, blank=True)
    """Guaranteed capacity; null: none, the subject uses idle capacity only."""
    limit_percent = models.PositiveIntegerField(null=True, blank=True)
    borrows = models.BooleanField(
        default=True, help_text="The subject may exceed its quota while capacity is idle."
    )
    weight = models.FloatField(
        default=1.0,
        validators=[MinValueValidator(0.01), MaxValueValidator(1000)],
        help_text="Relative share of idle capacity.",
    )
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
        """Keep reservations of the user's projects, in pools that the user may view."""
        projects = projects_with(user, "pools.view")
        if projects is None:
            return self
        return self.filter(project_id__in=projects, pool__in=Pool.objects.visible_to(user))


class Reservation(models.Model):
    """GPUs of a pool that are kept for a project during a period."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="reservations")
    project = models.ForeignKey(
        "accounts.Project", on_delete=models.CASCADE, related_name="reservations"
    )
    gpu_count = models.PositiveSmallIntegerField(
        validators=[MinValueValidator(1), MaxValueValidator(1024)]
    )
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
    """Past use of a project with exponential decay, for fair share."""

    project = models.OneToOneField("accounts.Project", primary_key=True, on_delete=models.CASCADE)
    percent_seconds = models.FloatField(default=0.0)
    counted_at = models.DateTimeField(default=timezone.now)
