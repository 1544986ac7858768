"""GET /api/v1/capacity."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.inventory import capacity
from appliance.inventory.models import Gpu
from appliance.rest import ApplianceView, caller, one_of, parsed_filters


class AmountSerializer(serializers.Serializer[Any]):
    capacity = serializers.FloatField(help_text="Of what is there.")
    allocatable = serializers.FloatField(
        help_text="Of that, what lies on ready and reachable nodes, in a pool: given or not."
    )
    allocated = serializers.FloatField()
    used = serializers.FloatField(help_text="As measured.")
    idle = serializers.FloatField(help_text="Allocated, and not used.")


class CapacitySerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(allow_null=True)
    name = serializers.CharField()
    gpus = AmountSerializer()
    memory_bytes = AmountSerializer()


class CapacitiesSerializer(serializers.Serializer[Any]):
    items = CapacitySerializer(many=True)
    total = CapacitySerializer()


BY = {"by": ("by", one_of(*capacity.GROUPS))}


class CapacityView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}

    @extend_schema(
        parameters=[
            OpenApiParameter("by", str, enum=list(capacity.GROUPS), description="pool without it.")
        ],
        responses=CapacitiesSerializer,
    )
    def get(self, request: Request) -> Response:
        """What there is of the GPUs that one sees, in GPUs and in bytes: capacity, allocatable, allocated, used, idle."""
        by = parsed_filters(request, BY).get("by", "pool")
        items, total = capacity.measured(Gpu.objects.visible_to(caller(request)), by)
        return Response(CapacitiesSerializer({"items": items, "total": total}).data)
