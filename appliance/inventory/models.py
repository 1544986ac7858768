"""Sites, nodes with their endpoints, and GPUs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from django.db import models
from django.db.models import Case, F, Q, When
from django.utils import timezone

from appliance.accounts.permissions import can_somewhere, inventory_places, projects_with
from appliance.db.identifiers import uuid7
from appliance.pools.isolation import IsolationLevel
from appliance.pools.models import Pool

if TYPE_CHECKING:
    from appliance.accounts.models import User


class NodeState(models.TextChoices):
    ENROLLING = "enrolling"
    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"
    REMOVED = "removed"


MAX_NOTES = 2000
DEFAULT_NETWORK = "default"
VIEW = "inventory.view"


class SiteQuerySet(models.QuerySet["Site"]):
    def visible_to(self, user: User) -> SiteQuerySet:
        if can_somewhere(user, VIEW):
            return self
        return self.filter(pk__in=inventory_places(user, VIEW))


class Site(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100, unique=True)
    notes = models.TextField(max_length=MAX_NOTES, blank=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects = SiteQuerySet.as_manager()

    @property
    def path(self) -> str:
        return f"sites/{self.pk}"

    def places(self) -> frozenset[UUID | None]:
        """Return where a role binding covers this object: itself and what lies above it."""
        return frozenset({self.pk})


class NodeQuerySet(models.QuerySet["Node"]):
    def visible_to(self, user: User) -> NodeQuerySet:
        if can_somewhere(user, VIEW):
            return self
        places = inventory_places(user, VIEW)
        return self.filter(Q(pk__in=places) | Q(site__in=places)) if places else self.none()

    def present(self) -> NodeQuerySet:
        """Exclude removed nodes, whose rows are kept for the history."""
        return self.exclude(state=NodeState.REMOVED)


class Node(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=100)
    state = models.CharField(max_length=20, choices=NodeState.choices, default=NodeState.ENROLLING)
    generation = models.PositiveBigIntegerField(default=1)
    """Generation of the desired state."""
    applied_generation = models.PositiveBigIntegerField(default=0)
    agent_version = models.CharField(max_length=50, blank=True)
    driver_version = models.CharField(max_length=50, blank=True)
    cuda_version = models.CharField(max_length=20, blank=True)
    """Newest CUDA version that the driver supports."""
    operating_system = models.CharField(max_length=100, blank=True)
    software = models.BooleanField(default=False)
    """The node has software GPUs."""
    simulated = models.BooleanField(default=False)
    """It was enrolled for demonstration: no machine, GPU or program of it exists."""
    boot_id = models.CharField(max_length=64, blank=True)
    locked_at = models.DateTimeField(null=True)
    lock_reason = models.CharField(max_length=300, blank=True)
    """Evidence that the node's identity exists twice. A locked node cannot connect."""
    expects_gpus = models.BooleanField(default=False)
    """The machine was enrolled and has not reported GPUs yet; these need no admission."""
    last_seen_at = models.DateTimeField(null=True)
    isolation = models.CharField(
        max_length=20, choices=IsolationLevel.choices, default=IsolationLevel.ANY
    )
    """Level of all sessions of the node, as its agent reports it."""
    missing_layers = models.JSONField(default=list, blank=True)
    """Layers of isolation that are not in force for all sessions; empty: none, or not known."""
    suspends_sessions = models.BooleanField(default=False)
    """Its agent and launcher can suspend sessions."""
    resizes_allocations = models.BooleanField(default=False)
    """Its agent and launcher change size and compute mode of an allocation with sessions."""
    ignored_sessions = models.PositiveBigIntegerField(default=0)
    """Reported sessions of allocations without a partition on the node."""
    labels = models.JSONField(default=dict, blank=True)
    notes = models.TextField(max_length=MAX_NOTES, blank=True)
    site = models.ForeignKey(Site, null=True, on_delete=models.SET_NULL, related_name="nodes")
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects = NodeQuerySet.as_manager()

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(
                fields=["name"], condition=~models.Q(state="removed"), name="node_name_once"
            )
        ]

    @property
    def path(self) -> str:
        return f"nodes/{self.pk}"

    def places(self) -> frozenset[UUID | None]:
        """Return where a role binding covers this object: itself and what lies above it."""
        return frozenset({self.pk, self.site_id})


class Endpoint(models.Model):
    """Address and port of the launcher. Clients try endpoints in order of position."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="endpoints")
    address = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    network = models.CharField(max_length=50, default=DEFAULT_NETWORK)
    position = models.PositiveSmallIntegerField(default=0)


class GpuQuerySet(models.QuerySet["Gpu"]):
    def visible_to(self, user: User) -> GpuQuerySet:
        """Exclude GPUs of pools that are restricted to projects of other users.

        GPUs at places where bindings of the user grant the view are visible in any case.
        """
        present = self.exclude(node__state=NodeState.REMOVED)
        projects = projects_with(user, VIEW)
        if projects is None:
            return present
        places = inventory_places(user, VIEW)
        if not places:
            hidden = Pool.objects.restricted_from(projects) if projects else []
            return present.in_other_pools(hidden) if projects else self.none()
        at_places = (
            Q(pk__in=places) | Q(node__in=places) | Q(node__site__in=places) | Q(pool__in=places)
        )
        if projects:
            hidden = Pool.objects.restricted_from(projects)
            at_places |= Q(pool__isnull=False) & ~Q(pool__in=hidden)
        return present.filter(at_places)

    def in_other_pools(self, hidden: Collection[UUID]) -> GpuQuerySet:
        """Keep GPUs in pools except the hidden ones.

        Excluding pools instead of listing the visible ones lets the database read pages in key
        order without a sort.
        """
        pooled = self.filter(pool__isnull=False)
        return pooled.exclude(pool__in=hidden) if hidden else pooled

    def with_names(self, viewer: User | None) -> GpuQuerySet:
        """Annotate the names of node, pool and other node, and whether the node is `simulated`.

        The name of the other node is null if the viewer may not view that node. None stands for
        readers who may view all nodes, such as those of the feed.
        """
        other: F | Case = F("duplicate_of__node__name")
        if viewer is not None and not can_somewhere(viewer, VIEW):
            visible = Node.objects.visible_to(viewer)
            other = Case(When(duplicate_of__node__in=visible, then=other))
        return self.annotate(
            node_name=F("node__name"),
            pool_name=F("pool__name"),
            simulated=F("node__simulated"),
            duplicate_of_node=other,
        )


class Gpu(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    node = models.ForeignKey(  # no index: the constraint gpu_once_a_node has one
        Node, on_delete=models.CASCADE, related_name="gpus", db_index=False
    )
    pool = models.ForeignKey(
        "pools.Pool", null=True, on_delete=models.SET_NULL, related_name="gpus", db_index=False
    )
    uuid = models.UUIDField()
    """UUID reported by NVML."""
    index = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=100)
    memory_bytes = models.PositiveBigIntegerField()
    compute_capability = models.CharField(max_length=10)
    pci_bus_id = models.CharField(max_length=20, blank=True)
    mig = models.BooleanField(default=False)
    """The GPU is in MIG mode, which excludes it from placement."""
    links = models.JSONField(default=dict, blank=True)
    """Index of another GPU of the node to the connection type of `nvidia-smi topo -m`."""
    context_bytes = models.PositiveBigIntegerField(default=0)
    """Memory that a CUDA context is charged with. 0: nothing, or its agent has not told."""
    present = models.BooleanField(default=True)
    """False if the last report of the node did not list the GPU."""
    held = models.BooleanField(default=False)
    """The node reported the GPU after its enrolment, and it waits for admission. It has no pool."""
    duplicate_of = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="duplicates", db_index=False
    )
    """The same GPU as another present node reports it, which excludes this row from placement."""
    labels = models.JSONField(default=dict, blank=True)
    notes = models.TextField(max_length=MAX_NOTES, blank=True)
    taken_percent = models.PositiveSmallIntegerField(default=0)
    taken_memory_bytes = models.PositiveBigIntegerField(default=0)
    """Totals of the partitions. Constraints prevent overcommitment by several schedulers."""
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects = GpuQuerySet.as_manager()

    class Meta:
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["pool", "id"], name="gpu_by_pool"),
            models.Index(
                fields=["duplicate_of"],
                condition=models.Q(duplicate_of__isnull=False),
                name="gpu_duplicates",
            ),
        ]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["node", "uuid"], name="gpu_once_a_node"),
            models.UniqueConstraint(
                fields=["uuid"],
                condition=models.Q(present=True, duplicate_of__isnull=True),
                name="gpu_claimed_once",
            ),
            models.CheckConstraint(
                condition=models.Q(taken_percent__lte=100), name="gpu_compute_not_given_twice"
            ),
            models.CheckConstraint(
                condition=models.Q(taken_memory_bytes__lte=models.F("memory_bytes")),
                name="gpu_memory_not_given_twice",
            ),
        ]

    @property
    def path(self) -> str:
        return f"nodes/{self.node_id}/gpus/{self.pk}"

    @property
    def short_name(self) -> str:
        """Name and index as in commands, such as `rack3-n7/0`. Reads the node."""
        return f"{self.node.name}/{self.index}"

    def places(self) -> frozenset[UUID | None]:
        """Return where a role binding covers this object. Reads the node."""
        return frozenset({self.pk, self.node_id, self.node.site_id, self.pool_id})
