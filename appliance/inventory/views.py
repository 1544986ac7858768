"""Nodes and GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.models import User
from appliance.accounts.permissions import projects_with
from appliance.activity.feed import NO_PROJECT, Audience, hub
from appliance.encoding import moment
from appliance.inventory import services
from appliance.inventory.models import MAX_NOTES, Endpoint, Gpu, Node, NodeState
from appliance.pools.models import Pool, open_to
from appliance.prepared import Select
from appliance.rest import (
    ApplianceView,
    CursorPage,
    Filter,
    an_id,
    caller,
    check_version,
    filter_parameters,
    filtered,
    labels,
    one_of,
    parsed_filters,
    shown,
    text,
    truth,
)
from appliance.telemetry import latest, series
from appliance.telemetry.views import MetricHistoryView
from nodes.version import AGENT_VERSION


class EndpointSerializer(serializers.ModelSerializer[Endpoint]):
    class Meta:
        model = Endpoint
        fields = ("address", "port", "network")


class NodeSerializer(serializers.ModelSerializer[Node]):
    endpoints = EndpointSerializer(many=True, read_only=True)
    reachable = serializers.SerializerMethodField()
    agent_outdated = serializers.SerializerMethodField()
    site = serializers.CharField(source="site.name", default=None, allow_null=True, read_only=True)
    last_seen_at = serializers.SerializerMethodField()

    class Meta:
        model = Node
        fields = (
            "id", "name", "state", "reachable", "generation", "applied_generation", "agent_version", "agent_outdated", "driver_version", "cuda_version",
            "operating_system", "software", "endpoints", "last_seen_at", "labels", "notes", "site", "version", "created_at",
        )  # fmt: skip

    def get_agent_outdated(self, node: Node) -> bool:
        """Another release than this appliance brings: registering the machine again updates it."""
        return node.agent_version not in ("", AGENT_VERSION)

    def get_reachable(self, node: Node) -> bool:
        return latest.reachable(node.pk)

    def get_last_seen_at(self, node: Node) -> str | None:
        seen = latest.last_seen(node.pk) or node.last_seen_at
        return seen.isoformat() if seen else None


class GpuSerializer(serializers.ModelSerializer[Gpu]):
    node = serializers.CharField(source="node.name", read_only=True)
    node_id = serializers.UUIDField(read_only=True)
    pool = serializers.CharField(source="pool.name", default=None, allow_null=True, read_only=True)
    links = serializers.DictField(
        child=serializers.CharField(),
        read_only=True,
        help_text="Index of another GPU of its node to how it is reached, as `nvidia-smi topo -m` says it.",
    )
    metrics = serializers.SerializerMethodField()

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
            "compute_capability",
            "pci_bus_id",
            "mig",
            "links",
            "present",
            "labels",
            "notes",
            "metrics",
            "version",
            "created_at",
        )

    def get_metrics(self, gpu: Gpu) -> dict[str, Any]:
        return series.newest(gpu.pk)

    def to_representation(self, gpu: Gpu) -> dict[str, Any]:
        """What the fields above say, without asking each of them. Of rows `with_names`."""
        return gpu_shown(*(getattr(gpu, name) for name in GPU_COLUMNS))


GPU_COLUMNS = (
    "pk", "uuid", "node_name", "node_id", "pool_name", "index", "model", "memory_bytes", "compute_capability", "pci_bus_id", "mig", "links",
    "present", "labels", "notes", "version", "created_at",
)  # fmt: skip


def gpu_shown(
    pk: UUID, uuid: UUID, node: str, node_id: UUID, pool: str | None, index: int, model: str, memory_bytes: int, compute_capability: str,
    pci_bus_id: str, mig: bool, links: dict[str, str], present: bool, labels: dict[str, str], notes: str, version: int, created_at: datetime,
) -> dict[str, Any]:  # fmt: skip
    return {
        "id": str(pk), "uuid": str(uuid), "node": node, "node_id": str(node_id), "pool": pool, "index": index, "model": model, "memory_bytes": memory_bytes,
        "compute_capability": compute_capability, "pci_bus_id": pci_bus_id, "mig": mig, "links": links,
        "present": present, "labels": labels, "notes": notes, "metrics": series.newest(pk), "version": version,
        "created_at": moment(created_at),
    }  # fmt: skip


class NodeChangeSerializer(serializers.Serializer[dict[str, Any]]):
    labels = serializers.DictField(
        child=serializers.CharField(max_length=200, allow_blank=True), required=False
    )
    notes = serializers.CharField(max_length=MAX_NOTES, required=False, allow_blank=True)
    networks = serializers.DictField(
        child=serializers.CharField(max_length=50),
        required=False,
        help_text="Of its addresses: address to network. Pools prefer one by its name.",
    )
    site = serializers.CharField(
        max_length=100, required=False, allow_blank=True, help_text="Its name; empty: none."
    )


class GpuChangeSerializer(serializers.Serializer[dict[str, Any]]):
    labels = serializers.DictField(
        child=serializers.CharField(max_length=200, allow_blank=True), required=False
    )
    notes = serializers.CharField(max_length=MAX_NOTES, required=False, allow_blank=True)
    pool = serializers.CharField(
        max_length=100,
        required=False,
        allow_blank=True,
        help_text="Its name; empty: in no pool, so nothing starts on it.",
    )


NODE_FILTERS: dict[str, tuple[str, Filter]] = {
    "state": ("state", one_of(*NodeState.values)),
    "name": ("name", text),
    "driver_version": ("driver_version", text),
    "cuda_version": ("cuda_version", text),
    "agent_version": ("agent_version", text),
    "site": ("site__name", text),
    "labels": ("labels", labels),
}


class NodeListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}

    @extend_schema(parameters=filter_parameters(NODE_FILTERS), responses=NodeSerializer(many=True))
    def get(self, request: Request) -> Response:
        rows = filtered(
            request,
            Node.objects.visible_to(caller(request))
            .select_related("site")
            .prefetch_related("endpoints"),
            NODE_FILTERS,
        )
        if "state" not in request.query_params:
            rows = rows.present()
        page = CursorPage()
        return page.get_paginated_response(
            [shown(NodeSerializer, row) for row in page.paginate_queryset(rows, request)]
        )


class NodeView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view", "PATCH": "inventory.manage"}

    @extend_schema(responses=NodeSerializer)
    def get(self, request: Request, node_id: UUID) -> Response:
        node = get_object_or_404(Node.objects.visible_to(caller(request)), pk=node_id)
        return Response(shown(NodeSerializer, node), headers={"ETag": f'"{node.version}"'})

    @extend_schema(request=NodeChangeSerializer, responses=NodeSerializer)
    def patch(self, request: Request, node_id: UUID) -> Response:
        node = get_object_or_404(Node.objects.visible_to(caller(request)).present(), pk=node_id)
        check_version(node, request)
        form = NodeChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        changed = services.node_change(
            node_id=node.pk, **form.validated_data, actor=caller(request).username
        )
        return Response(shown(NodeSerializer, changed))


class NodeScheduleView(ApplianceView):
    """POST …/cordon and …/uncordon."""

    privileges: ClassVar[dict[str, str]] = {"POST": "inventory.manage"}
    schedulable = False

    @extend_schema(request=None, responses=NodeSerializer)
    def post(self, request: Request, node_id: UUID) -> Response:
        node = get_object_or_404(Node.objects.visible_to(caller(request)), pk=node_id)
        changed = services.node_set_schedulable(
            node_id=node.pk, schedulable=self.schedulable, actor=caller(request).username
        )
        return Response(shown(NodeSerializer, changed))


def pool_named(name: str) -> UUID:
    """Its name."""
    return next((pk for (pk,) in POOL_NAMED.rows(name=text(name))), NO_PROJECT)


POOL_NAMED = Select(lambda name: Pool.objects.filter(name=name).values_list("pk"))
KEPT_POOLS = Select(lambda: Pool.objects.kept().values_list("pk", "project_ids"))


GPU_FILTERS: dict[str, tuple[str, Filter]] = {
    "node_id": ("node_id", an_id),
    "node": ("node__name", text),
    "site": ("node__site__name", text),
    "pool": ("pool_id", pool_named),
    "model": ("model", text),
    "mig": ("mig", truth),
    "present": ("present", truth),
    "labels": ("labels", labels),
}


class GpuListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}

    @extend_schema(parameters=filter_parameters(GPU_FILTERS), responses=GpuSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Pages of GPUs are what is read most: the statement of each combination of filters is put together once."""
        page, wanted = CursorPage(), parsed_filters(request, GPU_FILTERS)
        if "labels" in wanted:
            rows = filtered(
                request, Gpu.objects.visible_to(caller(request)).with_names(), GPU_FILTERS
            )
            return page.get_paginated_response(
                [shown(GpuSerializer, row) for row in page.paginate_queryset(rows, request)]
            )
        limit, after = page.bounds(request)
        mine = projects_with(caller(request), "inventory.view")
        scope = (
            {}
            if mine is None
            else {
                "hidden": [pk for pk, kept_for in KEPT_POOLS.rows() if not open_to(kept_for, mine)]
            }
        )
        given = {
            "of_all": mine is None,
            **{k: v for k, v in scope.items() if v},
            **({"after": after} if after else {}),
            **wanted,
        }
        found = page.cut(gpu_pages(limit).rows(**given), limit, lambda row: row[0])
        return page.get_paginated_response([gpu_shown(*row) for row in found])


@lru_cache(64)
def gpu_pages(limit: int) -> Select[Gpu]:
    """One more than a page has, newest first."""

    def build(
        of_all: bool, hidden: Collection[UUID] = (), after: UUID | None = None, **wanted: Any
    ) -> QuerySet[Gpu, Any]:
        rows = Gpu.objects.exclude(node__state=NodeState.REMOVED)
        rows = rows if of_all else rows.outside(hidden)
        rows = rows if after is None else rows.filter(pk__lt=after)
        lookups = {GPU_FILTERS[name][0]: value for name, value in wanted.items()}
        return (
            rows.filter(**lookups)
            .with_names()
            .order_by("-pk")
            .values_list(*GPU_COLUMNS)[: limit + 1]
        )

    return Select(build)


class GpuView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view", "PATCH": "inventory.manage"}

    @extend_schema(responses=GpuSerializer)
    def get(self, request: Request, gpu_id: UUID) -> Response:
        gpu = get_object_or_404(Gpu.objects.visible_to(caller(request)).with_names(), pk=gpu_id)
        return Response(shown(GpuSerializer, gpu), headers={"ETag": f'"{gpu.version}"'})

    @extend_schema(request=GpuChangeSerializer, responses=GpuSerializer)
    def patch(self, request: Request, gpu_id: UUID) -> Response:
        gpu = get_object_or_404(Gpu.objects.visible_to(caller(request)), pk=gpu_id)
        check_version(gpu, request)
        form = GpuChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        wanted = form.validated_data
        services.gpu_change(
            gpu_id=gpu.pk,
            labels=wanted.get("labels"),
            pool_name=wanted.get("pool"),
            notes=wanted.get("notes"),
            actor=caller(request).username,
        )
        return Response(shown(GpuSerializer, Gpu.objects.with_names().get(pk=gpu_id)))


class GpuMetricHistoryView(MetricHistoryView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}

    def find(self, request: Request, object_id: UUID) -> UUID:
        return get_object_or_404(Gpu.objects.visible_to(caller(request)), pk=object_id).pk


def node_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    for node in (
        Node.objects.filter(pk__in=ids).select_related("site").prefetch_related("endpoints")
    ):
        yield node.pk, "inventory.view", None, shown(NodeSerializer, node)


def gpu_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    for gpu in Gpu.objects.select_related("pool").with_names().filter(pk__in=ids):
        yield (
            gpu.pk,
            "inventory.view",
            gpu.pool.audience if gpu.pool else NO_PROJECT,
            shown(GpuSerializer, gpu),
        )


def watchable(user: User, gpus: Collection[str]) -> set[str]:
    ids = [g for g in gpus if is_uuid(g)]
    found = {
        str(pk)
        for n in range(0, len(ids), 500)
        for pk in Gpu.objects.visible_to(user)
        .filter(pk__in=ids[n : n + 500])
        .values_list("pk", flat=True)
    }
    return found.intersection(gpus)


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


hub.visible = watchable


hub.register("node", node_rows)
hub.register("gpu", gpu_rows)
