"""REST schemas of allocations and partitions."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from appliance.allocations.models import (
    Allocation,
    Hold,
    Partition,
    Resize,
    Suspension,
    SuspensionState,
    error_percent,
)
from appliance.allocations.placement import ComputeMode
from appliance.allocations.resizing import Size, granted_size
from appliance.api.encoding import format_timestamp
from appliance.api.fields import (
    LabelsField,
    LineField,
    NamedChoiceField,
    NameField,
    StrictBooleanField,
)
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import RowSerializer
from appliance.pools.models import DEFAULT_POOL

MAX_LIFETIME_SECONDS = 366 * 86400
MAX_MEMORY_BYTES = 1 << 50
TOO_MUCH_MEMORY = "It is more than 1024 TiB, the most."
MAX_OPEN_SESSIONS = 256
"""Of an allocation on a node: kLedgerSessions of the launcher."""


def fitting_sessions(memory_bytes: int, context_bytes: int) -> int:
    """Return how many contexts fit into a partition. The node refuses one that fills it."""
    return memory_bytes // context_bytes if memory_bytes > context_bytes else 0


# Requires rows annotated by `with_names`.
class PartitionSerializer(RowSerializer[Partition]):
    gpu_id = serializers.UUIDField(read_only=True)
    gpu_index = serializers.IntegerField(read_only=True)
    node = serializers.CharField(
        source="node_name", read_only=True, help_text="Name of the node of the GPU."
    )

    class Meta:
        model = Partition
        fields: tuple[str, ...] = (
            "id",
            "gpu_id",
            "gpu_index",
            "node",
            "position",
            "memory_bytes",
            "over_bytes",
            "compute_percent",
        )


class OccupiedPartitionSerializer(PartitionSerializer):
    allocation_id = serializers.UUIDField(read_only=True)
    state = serializers.CharField(
        source="allocation_state", read_only=True, help_text="State of the allocation."
    )

    class Meta(PartitionSerializer.Meta):
        fields = (*PartitionSerializer.Meta.fields, "allocation_id", "state")


class GrantedSizeSerializer(serializers.Serializer[Size]):
    percent = serializers.IntegerField(help_text="0: in proportion to memory_bytes.")
    memory_bytes = serializers.IntegerField(help_text="0: in proportion to the percent.")
    compute_mode = serializers.ChoiceField([m.value for m in ComputeMode])


class ResizeSerializer(serializers.Serializer[Resize]):
    state = serializers.ChoiceField(
        ["queued", "applying", "shrinking"],
        help_text="`queued`: it waits for capacity and keeps its size. `applying`: its nodes have "
        "not applied the change yet. `shrinking`: it uses more memory than its size.",
    )
    over_bytes = serializers.IntegerField(
        help_text="Memory beyond its size that it still occupies on all its GPUs. Its nodes have "
        "not confirmed less."
    )
    returned_bytes = serializers.IntegerField(
        help_text="Memory that a shrink has taken back so far. With `over_bytes` it is all that "
        "the allocation gives back."
    )
    reason = serializers.CharField(help_text="What the resize waits for.")
    requested_at = serializers.DateTimeField(
        allow_null=True, help_text="Since when it is queued; null in the other states."
    )
    granted_size = GrantedSizeSerializer(
        help_text="Size and mode that its nodes are told, as a resize states them. A resize to "
        "them withdraws one that is queued."
    )


class SuspensionSerializer(serializers.Serializer[Suspension]):
    state = serializers.ChoiceField(
        SuspensionState.values,
        help_text="`suspending`: its sessions end their work and move their memory to host memory. "
        "`suspended`: they have. `waiting`: a program has work, and other sessions of the "
        "allocation use its memory. `resuming`: the memory moves back. `failed`: the last "
        "suspension was abandoned; the allocation is active.",
    )
    released_bytes = serializers.IntegerField(
        help_text="Device memory that its sessions have released. It stays reserved for the "
        "allocation."
    )
    reason = serializers.CharField(
        allow_blank=True, help_text="Why it failed, or what it waits for."
    )
    requested_at = serializers.DateTimeField(
        allow_null=True, help_text="Time of the request, or of the failure."
    )


def progress_of(found: Resize | Suspension | None) -> dict[str, Any] | None:
    """Return the values of SuspensionSerializer, or of ResizeSerializer without the size."""
    if found is None:
        return None
    at = None if found.requested_at is None else format_timestamp(found.requested_at)
    return asdict(found) | {"requested_at": at}


# Requires rows annotated by `with_names` and with their partitions prefetched.
class AllocationSerializer(RowSerializer[Allocation]):
    owner = serializers.CharField(
        source="owner_name", read_only=True, help_text="User name of the owner."
    )
    project = NameField(source="project_name", read_only=True, help_text="Name of the project.")
    pool = serializers.CharField(
        source="pool_name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the requested pool; null if the pool was deleted.",
    )
    placed_pool = serializers.CharField(
        source="placed_pool_name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the pool of its GPUs: the requested pool or one of its fallbacks.",
    )
    reservation_id = serializers.UUIDField(read_only=True, allow_null=True)
    selector = serializers.DictField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Labels that its GPUs or their nodes must have.",
    )
    partitions = PartitionSerializer(many=True, read_only=True)
    max_sessions = serializers.SerializerMethodField(
        help_text="Programs that fit into it at once, if each uses all its GPUs: each takes one "
        "CUDA context of the memory of each partition. null without partitions, or if the contexts "
        "take nothing or are unknown."
    )
    resize = serializers.SerializerMethodField(
        help_text="The resize in progress; null if there is none. `percent`, `memory_bytes` and "
        "`compute_mode` are requested; the partitions and `granted_compute_mode` are granted."
    )
    suspension = serializers.SerializerMethodField(
        help_text="The suspension in progress, or the failure of the last one; null without one."
    )
    compute_enforcement = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="How its share of the compute is enforced now: `enforced`, or why not. The worst "
        "of its sessions; null without one.",
    )
    compute_received_percent = serializers.SerializerMethodField(
        help_text="Share of the time of its GPUs that it received over the last minute, as far as "
        "they were given in turns. The mean of its sessions; null if unknown."
    )
    compute_error_percent = serializers.SerializerMethodField(
        help_text="Received minus granted share, in points of percent; null if unknown."
    )
    longest_drain_ms = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        help_text="Longest time of the last minute that its work needed to end after a turn of a "
        "GPU. The longest of its sessions; null without one.",
    )

    class Meta:
        model = Allocation
        fields = (
            "id",
            "name",
            "state",
            "owner",
            "project",
            "pool",
            "placed_pool",
            "gpu_count",
            "percent",
            "memory_bytes",
            "compute_mode",
            "granted_compute_mode",
            "compute_enforcement",
            "compute_received_percent",
            "compute_error_percent",
            "longest_drain_ms",
            "same_node",
            "model",
            "selector",
            "min_driver_version",
            "min_cuda_version",
            "priority",
            "preemptible",
            "lifetime_seconds",
            "hold",
            "reservation_id",
            "partitions",
            "max_sessions",
            "resize",
            "suspension",
            "waiting_rule",
            "waiting_reason",
            "evict_at",
            "end_reason",
            "labels",
            "version",
            "created_at",
            "active_at",
            "ended_at",
        )

    # Any: `with_names` annotates the rows.
    def get_max_sessions(self, allocation: Any) -> int | None:
        partitions = allocation.partitions.all()
        fitting = [
            fitting_sessions(p.memory_bytes, p.context_bytes) for p in partitions if p.context_bytes
        ]
        return min(MAX_OPEN_SESSIONS, *fitting) if fitting else None

    def get_compute_received_percent(self, allocation: Any) -> float | None:
        received = allocation.received_percent
        return None if received is None else round(received, 2)

    def get_compute_error_percent(self, allocation: Any) -> float | None:
        granted = [p.compute_percent for p in allocation.partitions.all()]
        return error_percent(allocation.received_percent, fmean(granted) if granted else None)

    @extend_schema_field(ResizeSerializer(allow_null=True))
    def get_resize(self, allocation: Any) -> dict[str, Any] | None:
        if (progress := progress_of(allocation.resize)) is None:
            return None
        return progress | {
            "granted_size": asdict(granted_size(allocation, allocation.partitions.all()))
        }

    @extend_schema_field(SuspensionSerializer(allow_null=True))
    def get_suspension(self, allocation: Allocation) -> dict[str, Any] | None:
        return progress_of(allocation.suspended)


class ResizeRequestSerializer(RequestSerializer[dict[str, Any]]):
    percent = serializers.IntegerField(
        min_value=0,
        max_value=100,
        required=False,
        help_text="Share of the compute of each GPU and, unless the allocation has memory_bytes, "
        "of its memory. 0: in proportion to memory_bytes.",
    )
    memory_bytes = serializers.IntegerField(
        min_value=0,
        max_value=MAX_MEMORY_BYTES,
        required=False,
        error_messages={"max_value": TOO_MUCH_MEMORY},
        help_text="Memory on each GPU. 0: in proportion to the percent.",
    )
    compute_mode = NamedChoiceField(
        [m.value for m in ComputeMode],
        required=False,
        help_text="Meaning of the percent, as in the request of an allocation. `exclusive`: whole "
        "GPUs; percent and memory_bytes are ignored. From `exclusive` to another mode: they are "
        "100 and 0 if they are omitted, and those of the present size while `exclusive` waits.",
    )


class AllocationRequestSerializer(RequestSerializer[dict[str, Any]]):
    name = LineField(max_length=100, required=False, default="", allow_blank=True)
    project = NameField(
        max_length=100,
        required=False,
        help_text="Name of the project. If omitted: `default` if the caller may request GPUs in "
        "it, or else the only project in which the caller may.",
    )
    pool = NameField(max_length=100, required=False, default=DEFAULT_POOL)
    gpu_count = serializers.IntegerField(min_value=1, max_value=16, required=False, default=1)
    percent = serializers.IntegerField(
        min_value=1,
        max_value=100,
        required=False,
        help_text="Share of the compute of each GPU and, without memory_bytes, of its memory. "
        "100 if both are omitted.",
    )
    memory_bytes = serializers.IntegerField(
        min_value=1,
        max_value=MAX_MEMORY_BYTES,
        required=False,
        error_messages={"max_value": TOO_MUCH_MEMORY},
        help_text="Memory on each GPU. Without percent, compute is proportional to the memory.",
    )
    compute_mode = NamedChoiceField(
        [m.value for m in ComputeMode],
        required=False,
        default="shared",
        help_text="Meaning of the percent. `shared`: in proportion to that of the others that use "
        "the GPU. `capped`: never more. `guaranteed`: at least, and what is idle. `exclusive`: "
        "whole GPUs; percent and memory_bytes are ignored.",
    )
    same_node = serializers.BooleanField(
        required=False, default=False, help_text="Place all GPUs on one node."
    )
    model = serializers.CharField(
        max_length=100,
        required=False,
        default="",
        allow_blank=True,
        help_text="Substring of the GPU model, case-insensitive.",
    )
    selector = LabelsField(
        required=False,
        default=dict,
        help_text="Labels that each GPU or its node must have.",
    )
    min_cuda_version = serializers.RegexField(
        r"^([0-9]{1,3}(\.[0-9]{1,3})?)?$",
        required=False,
        default="",
        allow_blank=True,
        help_text="CUDA version that the driver must support, such as 12.4.",
    )
    min_driver_version = serializers.RegexField(
        r"^([0-9]{1,5}(\.[0-9]{1,5}){0,3})?$", required=False, default="", allow_blank=True
    )
    priority = serializers.IntegerField(
        min_value=0,
        max_value=200,
        required=False,
        default=50,
        help_text="Higher priorities start first. Priorities from 100 on are for operators.",
    )
    preemptible = serializers.BooleanField(
        required=False,
        default=True,
        help_text="The allocation may be evicted in favour of requests with a better claim. "
        "Only preemptible allocations may exceed a quota.",
    )
    lifetime_seconds = serializers.IntegerField(
        min_value=1,
        max_value=MAX_LIFETIME_SECONDS,
        required=False,
        default=None,
        allow_null=True,
        help_text="Time from activation to release; null for unlimited. The maximum of the pool "
        "shortens it.",
    )
    hold = serializers.ChoiceField(
        Hold.values,
        required=False,
        default=Hold.HEARTBEAT.value,
        help_text="What keeps the allocation; it is released 25 s after the last one. `heartbeat`: "
        "heartbeats and open sessions. `session`: open sessions, once it is active. `lifetime`: "
        "nothing is needed until its lifetime has passed, also while it is queued.",
    )
    reservation_id = serializers.UUIDField(required=False, default=None, allow_null=True)
    allow_pending = StrictBooleanField(
        required=False,
        help_text="Queue the request also if it can never start with the registered GPUs and the "
        "present limits. Otherwise such a request fails with `unsatisfiable`.",
    )
