"""REST view of the capacity."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.api.filters import parse_choice, parse_filters
from appliance.api.views import ApplianceView
from appliance.inventory import capacity
from appliance.inventory.models import Gpu


class AmountSerializer(serializers.Serializer[capacity.Amount]):
    capacity = serializers.FloatField(help_text="Present in nodes.")
    allocatable = serializers.FloatField(
        help_text="Part of the capacity in pools and on ready, reachable nodes, allocated or not."
    )
    allocated = serializers.FloatField()
    used = serializers.FloatField(help_text="Measured use.")
    idle = serializers.FloatField(help_text="Allocated but not used.")


class CapacitySerializer(serializers.Serializer[capacity.Capacity]):
    id = serializers.UUIDField(
        allow_null=True, help_text="Id of the pool, node or site; null for other groups."
    )
    name = serializers.CharField()
    gpus = AmountSerializer()
    memory_bytes = AmountSerializer()


class CapacitiesSerializer(serializers.Serializer[dict[str, Any]]):
    items = CapacitySerializer(many=True)
    total = CapacitySerializer()


FILTERS = {"by": ("by", parse_choice(*capacity.GROUPS))}


class CapacityView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(
        parameters=[
            OpenApiParameter(
                "by", str, enum=list(capacity.GROUPS), description="Grouping; default: pool."
            )
        ],
        responses=CapacitiesSerializer,
    )
    def get(self, request: Request) -> Response:
        """Return the capacity of the GPUs that the caller may view, by group and in total."""
        by = parse_filters(request, FILTERS).get("by", "pool")
        gpus = Gpu.objects.visible_to(request_user(request))
        items, total = capacity.measure_capacity(gpus, by)
        return Response(CapacitiesSerializer({"items": items, "total": total}).data)
