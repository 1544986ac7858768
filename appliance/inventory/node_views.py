"""REST views of nodes, and their rows for the feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.action_views import detail_of
from appliance.accounts.authentication import request_user
from appliance.accounts.authorization import require_at, require_privilege
from appliance.accounts.models import User
from appliance.accounts.places import Place, register_inventory, register_place
from appliance.activity.feed import hub
from appliance.api.errors import Code
from appliance.api.filters import (
    parse_choice,
    parse_labels,
    parse_text,
)
from appliance.api.listing import CREATED, Listing
from appliance.api.pagination import Order
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, ErrorCodes, check_version
from appliance.db.change_log import Audience
from appliance.inventory import actions, locks, services
from appliance.inventory.models import Node, NodeQuerySet, NodeState
from appliance.inventory.serializers import NodeChangeSerializer, NodeSerializer

NODES = Listing(
    NodeSerializer,
    {
        "state": ("state", parse_choice(*NodeState.values)),
        "name": ("name", parse_text),
        "driver_version": ("driver_version", parse_text),
        "cuda_version": ("cuda_version", parse_text),
        "agent_version": ("agent_version", parse_text),
        "site": ("site__name", parse_text),
        "labels": ("labels", parse_labels),
    },
    CREATED | {"name": Order("name"), "state": Order("state")},
)


def visible_nodes(request: Request) -> NodeQuerySet:
    return Node.objects.visible_to(request_user(request))


def managed_node(request: Request, rows: NodeQuerySet, node_id: UUID) -> Node:
    """Return the node for a change.

    Raises Http404 if it is not among the rows, ApplianceError DENIED if the caller manages
    neither it nor its site nor the appliance.
    """
    node = get_object_or_404(rows, pk=node_id)
    require_at(request_user(request), actions.MANAGE, node.places())
    return node


class NodeListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(parameters=NODES.parameters, responses=NodeSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List nodes. Removed nodes are listed only with `state=removed`."""
        rows = visible_nodes(request).select_related("site").prefetch_related("endpoints")
        if "state" not in request.query_params:
            rows = rows.present()
        return NODES.respond(request, rows)


class NodeView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "inventory.view",
        "PATCH": actions.UPDATE_NODE.privilege,
    }
    version_methods: ClassVar[frozenset[str]] = frozenset({"PATCH"})
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET", "PATCH"})

    @extend_schema(responses=detail_of(NodeSerializer))
    def get(self, request: Request, node_id: UUID) -> Response:
        """Return one node."""
        node = get_object_or_404(visible_nodes(request), pk=node_id)
        allowed = actions.NODES.actions_of(request_user(request), node)
        content = serialize(NodeSerializer, node) | {"actions": allowed}
        return Response(content, headers={"ETag": f'"{node.version}"'})

    @extend_schema(request=NodeChangeSerializer, responses=NodeSerializer)
    def patch(self, request: Request, node_id: UUID) -> Response:
        """Change the labels, notes, networks or site of a node.

        Another site needs the privilege on the whole appliance.
        """
        node = managed_node(request, visible_nodes(request).present(), node_id)
        check_version(node, request)
        form = NodeChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        if "site" in form.validated_data:
            require_privilege(request_user(request), actions.MANAGE)
        actor = request_user(request).username
        changed = services.update_node(node_id=node.pk, **form.validated_data, actor=actor)
        return Response(serialize(NodeSerializer, changed))


class NodeScheduleView(ApplianceView):
    """Base of the views POST …/cordon and …/uncordon."""

    privileges: ClassVar[dict[str, str]] = {"POST": actions.CORDON.privilege}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.NODE_LOCKED,),
    }
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    without_body: ClassVar[bool] = True
    schedulable: ClassVar[bool]

    def set_schedulable(self, request: Request, node_id: UUID) -> Response:
        node = managed_node(request, visible_nodes(request), node_id)
        changed = services.set_node_schedulable(
            node_id=node.pk,
            schedulable=self.schedulable,
            actor=request_user(request).username,
        )
        return Response(serialize(NodeSerializer, changed))


class NodeCordonView(NodeScheduleView):
    schedulable = False

    @extend_schema(request=None, responses=NodeSerializer)
    def post(self, request: Request, node_id: UUID) -> Response:
        """Exclude a node from placement. Existing allocations stay."""
        return self.set_schedulable(request, node_id)


class NodeUncordonView(NodeScheduleView):
    schedulable = True

    @extend_schema(request=None, responses=NodeSerializer)
    def post(self, request: Request, node_id: UUID) -> Response:
        """Include a cordoned node in placement again."""
        return self.set_schedulable(request, node_id)


class NodeUnlockView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": actions.UNLOCK.privilege}
    without_body: ClassVar[bool] = True

    @extend_schema(request=None, responses=NodeSerializer)
    def post(self, request: Request, node_id: UUID) -> Response:
        """Unlock a node after the second copy of its identity has been removed."""
        node = get_object_or_404(visible_nodes(request).present(), pk=node_id)
        unlocked = locks.unlock_node(node_id=node.pk, actor=request_user(request).username)
        return Response(serialize(NodeSerializer, unlocked))


def node_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield the rows of nodes for the feed."""
    rows = Node.objects.filter(pk__in=ids).select_related("site").prefetch_related("endpoints")
    for node in rows:
        yield node.pk, "inventory.view", None, serialize(NodeSerializer, node)


hub.register("node", node_rows)


def place_of_node(viewer: User, node_id: UUID) -> Place:
    node = get_object_or_404(Node.objects.visible_to(viewer), pk=node_id)
    return Place(inventory=node.places())


register_place("nodes", place_of_node)
register_inventory("node", lambda name: Node.objects.present().filter(name=name).first())
