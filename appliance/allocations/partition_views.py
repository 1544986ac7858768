"""REST views of partitions, and their rows for the feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from rest_framework.request import Request

from appliance.accounts.authentication import request_user
from appliance.accounts.resources import Resource
from appliance.activity.feed import NO_PROJECT, hub
from appliance.allocations.models import Allocation, Partition
from appliance.allocations.serializers import OccupiedPartitionSerializer
from appliance.api.filters import parse_id, parse_text
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView
from appliance.db.change_log import Audience
from appliance.inventory.models import Gpu
from appliance.telemetry.views import MetricHistoryView

PARTITIONS = Resource(
    OccupiedPartitionSerializer,
    {
        "gpu_id": ("gpu_id", parse_id),
        "allocation_id": ("allocation_id", parse_id),
        "node": ("gpu__node__name", parse_text),
    },
    CREATED
    | {
        "compute_percent": Order("compute_percent", kind=int),
        "memory_bytes": Order("memory_bytes", kind=int),
    },
    rows=lambda user: Partition.objects.filter(gpu__in=Gpu.objects.visible_to(user)).with_names(),
)


class PartitionListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    get = PARTITIONS.lists(
        "List the partitions of all GPUs that the caller may view.\n\n"
        "The allocation of a partition may belong to a project that the caller may not view."
    )


class PartitionMetricHistoryView(MetricHistoryView):
    """Usage of a partition; visible to members of its project only."""

    privileges: ClassVar[dict[str, str]] = {"GET": "allocations.view"}

    def find_series(self, request: Request, object_id: UUID) -> UUID:
        allocations = Allocation.objects.visible_to(request_user(request))
        rows = Partition.objects.filter(allocation__in=allocations)
        return get_object_or_404(rows, pk=object_id).pk


def partition_rows(
    ids: Sequence[UUID],
) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield the rows of partitions for the feed."""
    for row in Partition.objects.select_related("gpu__pool").with_names().filter(pk__in=ids):
        audience = row.gpu.pool.audience if row.gpu.pool else NO_PROJECT
        yield row.pk, "inventory.view", audience, serialize(OccupiedPartitionSerializer, row)


hub.register("partition", partition_rows)
