"""Maintenance mode of nodes, and what stands in its way."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Q
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.activity.idempotency import idempotent
from appliance.activity.views import TaskSerializer
from appliance.allocations import maintenance
from appliance.allocations.models import Allocation, AllocationState
from appliance.inventory.models import Node, NodeState
from appliance.inventory.views import NodeSerializer
from appliance.pools.models import Pool
from appliance.pools.views import PoolView
from appliance.rest import (
    ApplianceView,
    CursorPage,
    caller,
    check_version,
    plain,
    refuse_unknown_parameters,
    shown,
)


class MaintenanceSerializer(serializers.Serializer[dict[str, Any]]):
    grace_seconds = serializers.FloatField(
        min_value=0,
        max_value=7 * 86400,
        required=False,
        default=300.0,
        help_text="Notice that allocations there get.",
    )


class BlockerSerializer(serializers.ModelSerializer[Allocation]):
    owner = serializers.CharField(source="owner.username", read_only=True)
    project = serializers.CharField(source="project.name", read_only=True)
    state = serializers.CharField(read_only=True)

    class Meta:
        model = Allocation
        fields = ("id", "name", "owner", "project", "state", "evict_at", "end_reason", "active_at")


def pool_blockers(pool: Pool) -> list[dict[str, object]]:
    """What is in the pool, or asks for it."""
    gpus = pool.gpus.exclude(node__state=NodeState.REMOVED).select_related("node")[:100]
    waiting = Allocation.objects.filter(Q(pool=pool) | Q(placed_pool=pool)).exclude(
        state__in=[AllocationState.RELEASED, AllocationState.FAILED]
    )[:100]
    found: list[dict[str, object]] = [
        {"kind": "gpu", "id": str(g.pk), "name": f"GPU {g.index} of {g.node.name}"} for g in gpus
    ]
    found += [
        {"kind": "allocation", "id": str(a.pk), "name": a.name, "state": a.state} for a in waiting
    ]
    return found


PoolView.blockers = staticmethod(pool_blockers)


class NodeEnterMaintenanceView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "inventory.manage"}

    @extend_schema(request=MaintenanceSerializer, responses={202: TaskSerializer})
    def post(self, request: Request, node_id: UUID) -> Response:
        """A task that ends when the node is empty; exit-maintenance cancels it."""
        node = get_object_or_404(Node.objects.visible_to(caller(request)).present(), pk=node_id)
        check_version(node, request)
        form = MaintenanceSerializer(data=request.data)
        form.is_valid(raise_exception=True)

        def effect() -> tuple[int, dict[str, Any]]:
            task = maintenance.enter(
                node_id=node.pk,
                grace_seconds=form.validated_data["grace_seconds"],
                initiator=caller(request),
            )
            return 202, plain(shown(TaskSerializer, task))

        response = idempotent(request, effect)
        response["Location"] = f"/api/v1/tasks/{response.data['id']}"
        return response


class NodeExitMaintenanceView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": "inventory.manage"}

    @extend_schema(request=None, responses=NodeSerializer)
    def post(self, request: Request, node_id: UUID) -> Response:
        node = get_object_or_404(Node.objects.visible_to(caller(request)).present(), pk=node_id)
        check_version(node, request)
        return Response(
            shown(
                NodeSerializer, maintenance.leave(node_id=node.pk, actor=caller(request).username)
            )
        )


class NodeBlockerListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.manage"}

    @extend_schema(responses=BlockerSerializer(many=True))
    def get(self, request: Request, node_id: UUID) -> Response:
        """Allocations that still have partitions there."""
        refuse_unknown_parameters(request, [])
        node = get_object_or_404(Node.objects.visible_to(caller(request)).present(), pk=node_id)
        page = CursorPage()
        rows = page.paginate_queryset(
            maintenance.blockers(node).select_related("owner", "project"), request
        )
        return page.get_paginated_response(BlockerSerializer(rows, many=True).data)
