"""REST views of node maintenance."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.idempotency import idempotent
from appliance.accounts.models import User
from appliance.accounts.permissions import projects_with
from appliance.accounts.resources import Values
from appliance.activity.views import TaskSerializer
from appliance.allocations import maintenance
from appliance.allocations.models import Allocation
from appliance.api.fields import NumberField
from appliance.api.listing import Listing
from appliance.api.request_serializer import RequestSerializer
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, check_version
from appliance.inventory.models import Node
from appliance.inventory.node_views import NODES, present_nodes, require_management

MAX_GRACE_SECONDS = 7 * 86400


class MaintenanceSerializer(RequestSerializer[dict[str, Any]]):
    grace_seconds = NumberField(
        min_value=0,
        max_value=MAX_GRACE_SECONDS,
        required=False,
        default=300.0,
        help_text="Time until the allocations on the node are evicted.",
    )


class BlockerSerializer(serializers.ModelSerializer[Allocation]):
    owner = serializers.CharField(source="owner.username", read_only=True)
    project = serializers.CharField(source="project.name", read_only=True)
    state = serializers.CharField(read_only=True)
    name = serializers.SerializerMethodField(
        help_text="Empty if the caller may not view allocations of the project."
    )

    class Meta:
        model = Allocation
        fields = ("id", "name", "owner", "project", "state", "evict_at", "end_reason", "active_at")

    def get_name(self, allocation: Allocation) -> str:
        projects = self.context["projects"]
        shown = projects is None or allocation.project_id in projects
        return allocation.name if shown else ""


BLOCKERS = Listing(BlockerSerializer)


def find_node(user: User, node_id: UUID) -> Node:
    node = get_object_or_404(present_nodes(user), pk=node_id)
    require_management(user, node)
    return node


class NodeEnterMaintenanceView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": maintenance.ENTER.privilege}
    version_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    idempotent_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    created: ClassVar[dict[str, str]] = {"POST": "tasks"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"POST"})

    @extend_schema(request=MaintenanceSerializer, responses={202: TaskSerializer})
    def post(self, request: Request, node_id: UUID) -> Response:
        """Drain a node for maintenance.

        The returned task ends when the node is empty. exit-maintenance cancels it.
        """
        node = find_node(request_user(request), node_id)
        form = MaintenanceSerializer(data=request.data)
        form.is_valid(raise_exception=True)

        def effect() -> tuple[int, dict[str, Any]]:
            check_version(node, request)  # a repeated request gets the stored response
            task = maintenance.enter_maintenance(
                node_id=node.pk,
                grace_seconds=form.validated_data["grace_seconds"],
                initiator=request_user(request),
            )
            return 202, serialize(TaskSerializer, task)

        return idempotent(request, effect)


class NodeExitMaintenanceView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": maintenance.EXIT.privilege}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    without_body: ClassVar[bool] = True

    @NODES.changes(None, rows=present_nodes, permit=require_management)
    def post(self, user: User, node: Node, values: Values) -> Node:
        """End the maintenance of a node, or cancel its drain. The node becomes ready."""
        return maintenance.exit_maintenance(node_id=node.pk, actor=user.username)


class NodeBlockerListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.manage"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(parameters=BLOCKERS.parameters, responses=BlockerSerializer(many=True))
    def get(self, request: Request, node_id: UUID) -> Response:
        """List the allocations that have partitions on a node.

        Managers of the node see that an allocation exists, whose it is and when it ends.
        """
        rows = maintenance.node_blockers(find_node(request_user(request), node_id))
        context = {"projects": projects_with(request_user(request), "allocations.view")}
        return BLOCKERS.respond(
            request,
            rows.select_related("owner", "project"),
            lambda found: BlockerSerializer(found, many=True, context=context).data,
        )
