"""REST schemas of nodes and GPUs."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from appliance.api.fields import LabelsField, LineField
from appliance.api.request_serializer import ModelRequestSerializer, RequestSerializer
from appliance.api.serialization import RowSerializer
from appliance.inventory.models import Endpoint, Gpu, Node
from appliance.telemetry import reachability, series
from nodes.version import AGENT_VERSION


class EndpointSerializer(RowSerializer[Endpoint]):
    class Meta:
        model = Endpoint
        fields = ("address", "port", "network")


class NodeSerializer(RowSerializer[Node]):
    endpoints = EndpointSerializer(many=True, read_only=True)
    reachable = serializers.SerializerMethodField(help_text="The agent sent a heartbeat recently.")
    agent_outdated = serializers.SerializerMethodField(
        help_text="The version of the agent differs from that of the appliance. "
        "Enrol the node again to update it."
    )
    site = serializers.CharField(
        source="site.name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the site.",
    )
    last_seen_at = serializers.SerializerMethodField(help_text="Time of the last heartbeat.")

    ignored_sessions = serializers.IntegerField(
        read_only=True,
        help_text="Sessions that the node reported for allocations that it does not hold."
        " A few can occur when an allocation ends.",
    )

    simulated = serializers.BooleanField(
        read_only=True,
        help_text="It was enrolled for demonstration: no machine, GPU or program of it exists.",
    )

    suspends_sessions = serializers.BooleanField(
        read_only=True,
        help_text="Its agent and launcher can suspend allocations. Older versions cannot.",
    )

    resizes_allocations = serializers.BooleanField(
        read_only=True,
        help_text="Its agent and launcher can resize allocations. Older versions cannot.",
    )

    class Meta:
        model = Node
        fields = (
            "id",
            "name",
            "state",
            "locked_at",
            "lock_reason",
            "reachable",
            "generation",
            "applied_generation",
            "agent_version",
            "agent_outdated",
            "driver_version",
            "cuda_version",
            "operating_system",
            "software",
            "simulated",
            "isolation",
            "suspends_sessions",
            "resizes_allocations",
            "endpoints",
            "last_seen_at",
            "ignored_sessions",
            "labels",
            "notes",
            "site",
            "version",
            "created_at",
        )

    def get_agent_outdated(self, node: Node) -> bool:
        return node.agent_version not in ("", AGENT_VERSION)

    def get_reachable(self, node: Node) -> bool:
        return reachability.is_reachable(node.pk)

    def get_last_seen_at(self, node: Node) -> str | None:
        seen = reachability.last_seen(node.pk) or node.last_seen_at
        return seen.isoformat() if seen else None


# Requires rows annotated by `with_names`.
class GpuSerializer(RowSerializer[Gpu]):
    node = serializers.CharField(source="node_name", read_only=True, help_text="Name of the node.")
    node_id = serializers.UUIDField(read_only=True)
    pool = serializers.CharField(
        source="pool_name",
        default=None,
        allow_null=True,
        read_only=True,
        help_text="Name of the pool; null if the GPU is in no pool.",
    )
    links = serializers.DictField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Index of another GPU of the node to the type of the connection, "
        "as in `nvidia-smi topo -m`.",
    )
    context_bytes = serializers.IntegerField(
        read_only=True,
        help_text="Memory of it that each CUDA context takes: one for each program that uses it. "
        "0: nothing, or not known.",
    )
    held = serializers.BooleanField(
        read_only=True,
        help_text="An enrolled node reported the GPU later. It joins a pool when it is admitted.",
    )
    duplicate_of = serializers.UUIDField(
        source="duplicate_of_id",
        read_only=True,
        allow_null=True,
        help_text="The same GPU (UUID) as another node reports it; null if no other does. This one"
        " is held: nothing is placed on it until the other node is removed or no longer has it.",
    )
    duplicate_of_node = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="Name of that other node; null if the caller may not view it.",
    )
    simulated = serializers.BooleanField(
        read_only=True, help_text="It is of a simulated node. No program can run on it."
    )
    metrics = serializers.SerializerMethodField(help_text="Newest sample of each metric.")

    class Meta:
        model = Gpu
        fields = (
            "id",
            "uuid",
            "node",
            "node_id",
            "pool",
            "index",
            "model",
            "memory_bytes",
            "context_bytes",
            "compute_capability",
            "pci_bus_id",
            "mig",
            "links",
            "present",
            "held",
            "duplicate_of",
            "duplicate_of_node",
            "simulated",
            "labels",
            "notes",
            "metrics",
            "version",
            "created_at",
        )

    def get_metrics(self, gpu: Gpu) -> dict[str, Any]:
        return series.latest_metrics(gpu.id)


class NodeChangeSerializer(ModelRequestSerializer[Node]):
    labels = LabelsField(required=False)
    networks = serializers.DictField(
        child=LineField(max_length=50),
        required=False,
        help_text="Address of the node to the name of its network. Pools can prefer a network.",
    )
    site = serializers.CharField(
        max_length=100,
        required=False,
        allow_blank=True,
        help_text="Name of the site; empty removes the node from its site.",
    )

    class Meta:
        model = Node
        fields = ("labels", "notes", "networks", "site")


class GpuAdmissionSerializer(RequestSerializer[dict[str, Any]]):
    pool = serializers.CharField(
        max_length=100, required=False, help_text="Name of the pool; the default pool if absent."
    )


class GpuChangeSerializer(ModelRequestSerializer[Gpu]):
    labels = LabelsField(required=False)
    pool = serializers.CharField(
        max_length=100,
        required=False,
        allow_blank=True,
        help_text="Name of the pool; empty removes the GPU from its pool and from placement.",
    )

    class Meta:
        model = Gpu
        fields = ("labels", "notes", "pool")
