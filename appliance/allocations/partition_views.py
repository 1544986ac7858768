"""REST views of partitions, and their rows for the feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.activity.feed import NO_PROJECT, hub
from appliance.allocations.models import Allocation, Partition
from appliance.allocations.serializers import OccupiedPartitionSerializer
from appliance.api.filters import Filter, apply_filters, filter_parameters, parse_id
from appliance.api.pagination import CursorPagination
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView
from appliance.db.change_log import Audience
from appliance.inventory.models import Gpu
from appliance.telemetry.views import MetricHistoryView

PARTITION_FILTERS: dict[str, tuple[str, Filter]] = {"gpu_id": ("gpu_id", parse_id)}


class PartitionListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(
        parameters=filter_parameters(PARTITION_FILTERS),
        responses=OccupiedPartitionSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        """List the partitions of all GPUs that the caller may view.

        The allocation of a partition may belong to a project that the caller may not view.
        """
        gpus = Gpu.objects.visible_to(request_user(request))
        rows = Partition.objects.filter(gpu__in=gpus).with_names()
        rows = apply_filters(request, rows, PARTITION_FILTERS)
        page = CursorPagination()
        found = page.paginate_queryset(rows, request)
        return page.get_paginated_response(
            [serialize(OccupiedPartitionSerializer, row) for row in found]
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
