"""REST views of nodes, and their rows for the feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.authentication import request_user
from appliance.accounts.authorization import require_at, require_privilege
from appliance.accounts.models import User
from appliance.accounts.resources import Resource, Values
from appliance.activity.feed import hub
from appliance.api.errors import Code
from appliance.api.filters import (
    parse_choice,
    parse_labels,
    parse_text,
)
from appliance.api.listing import CREATED
from appliance.api.pagination import Order
from appliance.api.serialization import serialize
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.db.change_log import Audience
from appliance.inventory import actions, locks, services
from appliance.inventory.models import Node, NodeQuerySet, NodeState
from appliance.inventory.serializers import NodeChangeSerializer, NodeSerializer

NODES = Resource(
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
    rows=Node.objects.visible_to,
    kind=actions.NODES,
)


def present_nodes(user: User) -> NodeQuerySet:
    return Node.objects.visible_to(user).present()


def require_management(user: User, node: Node) -> None:
    """Raise ApplianceError DENIED if the user manages neither the node nor what is above it."""
    require_at(user, actions.MANAGE, node.places())


class NodeListView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"GET": "inventory.view"}
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET"})

    @extend_schema(parameters=NODES.parameters, responses=NodeSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List nodes. Removed nodes are listed only with `state=removed`."""
        rows = Node.objects.visible_to(request_user(request))
        rows = rows.select_related("site").prefetch_related("endpoints")
        if "state" not in request.query_params:
            rows = rows.present()
        return NODES.respond(request, rows)


class NodeView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {
        "GET": "inventory.view",
        "PATCH": actions.UPDATE_NODE.privilege,
    }
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"GET", "PATCH"})

    get = NODES.shows("Return one node.")

    @NODES.changes(NodeChangeSerializer, rows=present_nodes, permit=require_management)
    def patch(self, user: User, node: Node, values: Values) -> Node:
        """Change the labels, notes, networks or site of a node.

        Another site needs the privilege on the whole appliance.
        """
        if "site" in values:
            require_privilege(user, actions.MANAGE)
        return services.update_node(node_id=node.pk, values=values, actor=user.username)


class NodeScheduleView(ApplianceView):
    """Base of the views POST …/cordon and …/uncordon."""

    privileges: ClassVar[dict[str, str]] = {"POST": actions.CORDON.privilege}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (Code.NODE_LOCKED,),
    }
    inventory_methods: ClassVar[frozenset[str]] = frozenset({"POST"})
    without_body: ClassVar[bool] = True


class NodeCordonView(NodeScheduleView):
    @NODES.changes(None, permit=require_management)
    def post(self, user: User, node: Node, values: Values) -> Node:
        """Exclude a node from placement. Existing allocations stay."""
        return services.set_node_schedulable(
            node_id=node.pk, schedulable=False, actor=user.username
        )


class NodeUncordonView(NodeScheduleView):
    @NODES.changes(None, permit=require_management)
    def post(self, user: User, node: Node, values: Values) -> Node:
        """Include a cordoned node in placement again."""
        return services.set_node_schedulable(node_id=node.pk, schedulable=True, actor=user.username)


class NodeUnlockView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": actions.UNLOCK.privilege}
    without_body: ClassVar[bool] = True

    @NODES.changes(None, rows=present_nodes)
    def post(self, user: User, node: Node, values: Values) -> Node:
        """Unlock a node after the second copy of its identity has been removed."""
        return locks.unlock_node(node_id=node.pk, actor=user.username)


def node_rows(ids: Sequence[UUID]) -> Iterator[tuple[UUID, str, Audience, Mapping[str, Any]]]:
    """Yield the rows of nodes for the feed."""
    rows = Node.objects.filter(pk__in=ids).select_related("site").prefetch_related("endpoints")
    for node in rows:
        yield node.pk, "inventory.view", None, serialize(NodeSerializer, node)


hub.register("node", node_rows)
