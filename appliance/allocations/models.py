"""Allocations, their partitions and their sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Aggregate, Avg, F, Max, OuterRef, Subquery
from django.db.models.fields.json import KT
from django.utils import timezone

from appliance.accounts.permissions import projects_with
from appliance.db.identifiers import uuid7

if TYPE_CHECKING:
    from appliance.accounts.models import User


class AllocationState(models.TextChoices):
    QUEUED = "queued"
    PREPARING = "preparing"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    RELEASING = "releasing"
    RELEASED = "released"
    FAILED = "failed"


class Hold(models.TextChoices):
    """The condition under which an allocation is not released."""

    HEARTBEAT = "heartbeat"
    """Heartbeats and open sessions."""
    SESSION = "session"
    """Heartbeats until it is active, then open sessions."""
    LIFETIME = "lifetime"
    """Nothing is needed until its lifetime has passed."""


class SuspensionState(models.TextChoices):
    """Progress of a suspension. Empty: the allocation is not suspended."""

    SUSPENDING = "suspending"
    SUSPENDED = "suspended"
    WAITING = "waiting"
    """A program has work, and the memory of its session is in use."""
    RESUMING = "resuming"
    FAILED = "failed"
    """The last one was abandoned. The allocation is active."""


HELD = (SuspensionState.SUSPENDED, SuspensionState.WAITING)
IN_PROGRESS = (SuspensionState.SUSPENDING, *HELD, SuspensionState.RESUMING)


@dataclass(frozen=True, slots=True)
class Suspension:
    """Progress of a suspension, or the failure of the last one."""

    state: str
    released_bytes: int
    reason: str
    requested_at: datetime | None


@dataclass(frozen=True, slots=True)
class Resize:
    """Progress of a resize."""

    state: str
    over_bytes: int
    returned_bytes: int
    """Memory that a shrink has taken back so far; `over_bytes` are the rest."""
    reason: str
    requested_at: datetime | None = None


def shrinking_reason(returned_bytes: int, over_bytes: int) -> str:
    """Return how much a shrink has taken back, such as "1.2 of 2 GiB returned"."""
    total = returned_bytes + over_bytes
    unit, name = (1 << 30, "GiB") if total >= 1 << 30 else (1 << 20, "MiB")
    tenths = 10 * returned_bytes // unit, round(10 * total / unit)  # never more than is returned
    amounts = (f"{tenth / 10:.1f}".removesuffix(".0") for tenth in tenths)
    return (
        f"{' of '.join(amounts)} {name} returned. "
        "The rest is free when its nodes confirm that its programs have freed it. Small blocks are"
        " in pieces of up to 64 MiB: one block in use keeps its whole piece."
    )


RUNNING = (AllocationState.ACTIVE, AllocationState.SUSPENDED)
"""States in which there can be sessions."""
HOLDING = (AllocationState.PREPARING, AllocationState.ACTIVE, AllocationState.SUSPENDED)
"""States whose partitions are granted on nodes."""
OCCUPYING = (*HOLDING, AllocationState.RELEASING)
"""States in which partitions occupy their GPUs."""


class AllocationQuerySet(models.QuerySet["Allocation"]):
    def visible_to(self, user: User) -> AllocationQuerySet:
        projects = projects_with(user, "allocations.view")
        return self if projects is None else self.filter(project_id__in=projects)

    def with_names(self) -> AllocationQuerySet:
        """Annotate the names of owner, project, pool and placed pool."""
        names = {
            "owner_name": "owner__username",
            "project_name": "project__name",
            "pool_name": "pool__name",
            "placed_pool_name": "placed_pool__name",
        }
        return self.annotate(
            **{name: F(column) for name, column in names.items()},
            compute_enforcement=of_open_sessions(WORST_ENFORCEMENT),
            received_percent=of_open_sessions(Avg("compute_received_percent")),
            longest_drain_ms=of_open_sessions(Max("longest_drain_ms")),
        )


WORST_ENFORCEMENT = Max(KT("isolation__compute_limit"))
"""The texts of the nodes are in the order of their severity: nodes/messages.py."""


def of_open_sessions(aggregate: Aggregate) -> Subquery:
    """Return an aggregate of the open sessions of an allocation; null without one."""
    sessions = Session.objects.filter(allocation=OuterRef("pk")).exclude(state=SessionState.CLOSED)
    found = sessions.order_by().values("allocation").annotate(found=aggregate)
    return Subquery(found.values("found"))


class Allocation(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="allocations"
    )
    project = models.ForeignKey(
        "accounts.Project", on_delete=models.PROTECT, related_name="allocations"
    )
    pool = models.ForeignKey(
        "pools.Pool", null=True, on_delete=models.SET_NULL, related_name="allocations"
    )
    name = models.CharField(max_length=100, blank=True)
    state = models.CharField(
        max_length=20, choices=AllocationState.choices, default=AllocationState.QUEUED
    )
    gpu_count = models.PositiveSmallIntegerField(default=1)
    percent = models.PositiveSmallIntegerField(default=0)
    """Requested share of compute and, without `memory_bytes`, of memory. 0: proportional to the
    memory. The partitions have what is granted."""
    memory_bytes = models.PositiveBigIntegerField(default=0)
    """Requested memory on each GPU. 0: proportional to the percent."""
    resize_requested_at = models.DateTimeField(null=True, blank=True)
    """Since when an active allocation waits for the requested size. null: it does not wait."""
    suspension = models.CharField(
        max_length=20, choices=SuspensionState.choices, blank=True, default=""
    )
    suspension_revision = models.PositiveBigIntegerField(default=0)
    """Grows with each change of what the nodes shall do; their reports name it."""
    suspension_reason = models.CharField(max_length=200, blank=True)
    """Error of the last suspension. While it is resuming: the error with which it will count as
    failed."""
    suspension_requested_at = models.DateTimeField(null=True, blank=True)
    suspension_reports = models.JSONField(default=dict, blank=True)
    """State, released bytes and reason of each node that has reported this revision, by its id."""
    compute_mode = models.CharField(max_length=20, default="shared")
    """Requested compute mode."""
    granted_compute_mode = models.CharField(max_length=20, default="shared")
    """Compute mode that the nodes are told. It differs from the requested one while an active
    allocation waits for a size."""
    same_node = models.BooleanField(default=False)
    model = models.CharField(max_length=100, blank=True)
    selector = models.JSONField(default=dict, blank=True)
    """Required labels of the GPUs."""
    min_driver_version = models.CharField(max_length=20, blank=True)
    min_cuda_version = models.CharField(max_length=20, blank=True)
    priority = models.PositiveSmallIntegerField(default=50)
    preemptible = models.BooleanField(default=True)
    lifetime_seconds = models.PositiveIntegerField(null=True, blank=True)
    """Time from activation to eviction; null: unlimited."""
    hold = models.CharField(max_length=20, choices=Hold.choices, default=Hold.HEARTBEAT)
    reservation = models.ForeignKey(
        "pools.Reservation",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="allocations",
    )
    placed_pool = models.ForeignKey(
        "pools.Pool",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="placed_allocations",
    )
    """Pool of the GPUs: the requested pool or a fallback."""
    waiting_rule = models.CharField(max_length=20, blank=True)
    waiting_reason = models.CharField(max_length=500, blank=True)
    evict_at = models.DateTimeField(null=True, blank=True)
    """Time of the announced eviction; `end_reason` holds the reason."""
    end_reason = models.CharField(max_length=500, blank=True)
    fence_epoch = models.PositiveBigIntegerField(default=1)
    fence_counter = models.PositiveBigIntegerField(default=1)
    """Incremented at release; sessions with an older fence end."""
    labels = models.JSONField(default=dict, blank=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)
    active_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    objects = AllocationQuerySet.as_manager()

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["state"], name="allocation_by_state"),
            models.Index(
                fields=["ended_at"],
                name="allocation_by_end",
                condition=models.Q(ended_at__isnull=False),
            ),
            models.Index(
                fields=["resize_requested_at"],
                name="allocation_resize_waits",
                condition=models.Q(resize_requested_at__isnull=False),
            ),
            models.Index(
                fields=["state"],
                name="allocation_noticed",
                condition=models.Q(evict_at__isnull=False),
            ),
        ]

    @property
    def path(self) -> str:
        return f"projects/{self.project_id}/allocations/{self.pk}"

    @property
    def resize(self) -> Resize | None:
        """The resize in progress, if there is one. Reads the partitions."""
        if self.state not in RUNNING:
            return None
        partitions = self.partitions.all()
        over_bytes = sum(p.over_bytes for p in partitions)
        returned = sum(p.shrink_bytes for p in partitions) - over_bytes
        if self.resize_requested_at is not None:
            reason, requested_at = self.waiting_reason, self.resize_requested_at
            returned = returned if over_bytes else 0  # an earlier shrink has ended
            return Resize("queued", over_bytes, returned, reason, requested_at)
        if over_bytes:
            reason = shrinking_reason(returned, over_bytes)
            return Resize("shrinking", over_bytes, returned, reason)
        if any(p.resizing for p in partitions):
            return Resize("applying", 0, returned, "The nodes have not applied the change yet.")
        return None

    @property
    def suspended(self) -> Suspension | None:
        """The suspension of a running allocation, or the failure of its last one."""
        if self.state not in RUNNING or not self.suspension:
            return None
        released = sum(released for _, released, _ in self.suspension_reports.values())
        reasons = [reason for _, _, reason in self.suspension_reports.values() if reason]
        return Suspension(
            self.suspension,
            released,
            next(iter(reasons), self.suspension_reason),
            self.suspension_requested_at,
        )


class PartitionQuerySet(models.QuerySet["Partition"]):
    def with_names(self) -> PartitionQuerySet:
        """Annotate index, memory and context of the GPU, node name and state of the allocation."""
        return self.annotate(
            gpu_index=F("gpu__index"),
            gpu_memory_bytes=F("gpu__memory_bytes"),
            context_bytes=F("gpu__context_bytes"),
            node_name=F("gpu__node__name"),
            allocation_state=F("allocation__state"),
        )


class Partition(models.Model):
    """A share of one GPU. Freed rows are deleted; events keep the history."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="partitions")
    gpu = models.ForeignKey("inventory.Gpu", on_delete=models.PROTECT, related_name="partitions")
    position = models.PositiveSmallIntegerField()
    memory_bytes = models.PositiveBigIntegerField()
    over_bytes = models.PositiveBigIntegerField(default=0)
    """Memory beyond `memory_bytes` that the partition still occupies after it has shrunk."""
    shrink_bytes = models.PositiveBigIntegerField(default=0)
    """`over_bytes` when the size was granted: what the partition has to give back."""
    compute_percent = models.PositiveSmallIntegerField()
    generation = models.PositiveBigIntegerField()
    """Generation of the node that grants the partition or, while releasing, revokes it."""
    resizing = models.BooleanField(default=False)
    """The node has not applied the size yet, or the partition occupies more."""

    objects = PartitionQuerySet.as_manager()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["allocation", "gpu"], name="partition_once_a_gpu"),
            models.CheckConstraint(
                condition=models.Q(compute_percent__gte=1, compute_percent__lte=100),
                name="partition_percent_range",
            ),
        ]


class SessionState(models.TextChoices):
    OPENING = "opening"
    RUNNING = "running"
    SUSPENDED = "suspended"
    CLOSED = "closed"


class SessionQuerySet(models.QuerySet["Session"]):
    def visible_to(self, user: User) -> SessionQuerySet:
        projects = projects_with(user, "allocations.view")
        return self if projects is None else self.filter(allocation__project_id__in=projects)

    def serializable(self) -> SessionQuerySet:
        """Return the rows with node, allocation and the mean percent of the GPUs of the node."""
        partitions = Partition.objects.filter(
            allocation=OuterRef("allocation"), gpu__node=OuterRef("node")
        )
        granted = partitions.order_by().values("allocation").annotate(mean=Avg("compute_percent"))
        return self.select_related("node", "allocation").annotate(
            granted_percent=Subquery(granted.values("mean"))
        )


def error_percent(received: float | None, granted: float | None) -> float | None:
    """Return by how many points a received share differs from the granted one."""
    return None if received is None or granted is None else round(received - granted, 2)


class Session(models.Model):
    """Connection of one client process to one session server."""

    id = models.UUIDField(primary_key=True, editable=False)
    allocation = models.ForeignKey(Allocation, on_delete=models.CASCADE, related_name="sessions")
    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="sessions")
    state = models.CharField(max_length=20, choices=SessionState.choices)
    pid = models.PositiveIntegerField()
    client_pid = models.PositiveIntegerField()
    client_address = models.CharField(max_length=64)
    program = models.CharField(max_length=64)
    isolation = models.JSONField(default=dict)
    """Isolation mechanism to its status, with the reason if it is not enforced."""
    memory_bytes = models.PositiveBigIntegerField(default=0)
    launches = models.PositiveBigIntegerField(default=0)
    bytes_in = models.PositiveBigIntegerField(default=0)
    bytes_out = models.PositiveBigIntegerField(default=0)
    longest_drain_ms = models.PositiveBigIntegerField(default=0)
    """Longest time of the last minute that its work needed to end after a turn."""
    compute_received_percent = models.FloatField(null=True)
    """Share of its GPUs that its allocation received over the last minute. null: unknown."""
    end_reason = models.CharField(max_length=200, blank=True)
    refused_calls = models.JSONField(default=list, blank=True)
    """Names of unsupported driver API functions that the program called."""
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    objects = SessionQuerySet.as_manager()

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(
                fields=["node"],
                name="session_open",
                condition=~models.Q(state=SessionState.CLOSED),
            ),
            models.Index(
                fields=["closed_at"],
                name="session_by_end",
                condition=models.Q(closed_at__isnull=False),
            ),
        ]
