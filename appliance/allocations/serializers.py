"""REST schemas of allocations and partitions."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from appliance.accounts.services import DEFAULT_PROJECT
from appliance.allocations.models import Allocation, Hold, Partition
from appliance.allocations.placement import ComputeMode
from appliance.api.fields import LabelsField, LineField, NameField, StrictBooleanField
from appliance.api.request_serializer import RequestSerializer
from appliance.api.row_serializer import RowSerializer
from appliance.pools.models import DEFAULT_POOL

MAX_LIFETIME_SECONDS = 366 * 86400


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
            "compute_percent",
        )


class OccupiedPartitionSerializer(PartitionSerializer):
    allocation_id = serializers.UUIDField(read_only=True)
    state = serializers.CharField(
        source="allocation_state", read_only=True, help_text="State of the allocation."
    )

    class Meta(PartitionSerializer.Meta):
        fields = (*PartitionSerializer.Meta.fields, "allocation_id", "state")


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
    compute_enforcement = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="How its share of the compute is enforced now: `enforced`, or why not. The worst "
        "of its sessions; null without one.",
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
            "compute_enforcement",
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


class AllocationRequestSerializer(RequestSerializer[dict[str, Any]]):
    name = LineField(max_length=100, required=False, default="", allow_blank=True)
    project = NameField(max_length=100, required=False, default=DEFAULT_PROJECT)
    pool = NameField(max_length=100, required=False, default=DEFAULT_POOL)
    gpu_count = serializers.IntegerField(min_value=1, max_value=16, required=False, default=1)
    percent = serializers.IntegerField(
        min_value=1,
        max_value=100,
        required=False,
        default=0,
        help_text="Share of the compute of each GPU and, without memory_bytes, of its memory. "
        "100 if both are omitted.",
    )
    memory_bytes = serializers.IntegerField(
        min_value=1,
        max_value=1 << 50,
        required=False,
        default=0,
        help_text="Memory on each GPU. Without percent, compute is proportional to the memory.",
    )
    compute_mode = serializers.ChoiceField(
        [m.value for m in ComputeMode],
        required=False,
        default="shared",
        help_text="Meaning of the percent. `shared`: in proportion to that of the others that use "
        "the GPU. `capped`: never more. `guaranteed`: at least, and what is idle. `exclusive`: "
        "whole GPUs.",
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
        r"^(\d{1,3}(\.\d{1,3})?)?$",
        required=False,
        default="",
        allow_blank=True,
        help_text="CUDA version that the driver must support, such as 12.4.",
    )
    min_driver_version = serializers.RegexField(
        r"^(\d{1,5}(\.\d{1,5}){0,3})?$", required=False, default="", allow_blank=True
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
        help_text="Time from activation to release; null for unlimited.",
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
