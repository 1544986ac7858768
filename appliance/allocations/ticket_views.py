"""REST view that issues tickets."""

from __future__ import annotations

import base64
import binascii
import time
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from appliance.accounts.actions import raise_refusal
from appliance.accounts.authentication import request_user
from appliance.allocations import actions, tickets
from appliance.allocations import ticket_layouts as layouts
from appliance.allocations.access import find_allocation
from appliance.allocations.models import Allocation, Partition
from appliance.allocations.queries import ALLOCATIONS_BY_ID
from appliance.api.errors import ApplianceError, Code
from appliance.api.request_serializer import RequestSerializer
from appliance.api.views import ApplianceView, ErrorCodes
from appliance.db.prepared import Select
from appliance.inventory.endpoints import EndpointAddress, sort_endpoints
from appliance.inventory.locks import locked_message
from appliance.inventory.models import Endpoint
from appliance.pools.models import Pool

KEY_BYTES = 32


class TicketRequestSerializer(RequestSerializer[dict[str, str]]):
    client_public_key = serializers.RegexField(
        r"^[A-Za-z0-9+/]{43}=$", help_text="X25519 public key, 32 bytes in base64."
    )


class TicketSerializer(serializers.Serializer[dict[str, Any]]):
    node_id = serializers.UUIDField()
    node = serializers.CharField(help_text="Name of the node.")
    software = serializers.BooleanField(help_text="The node has software GPUs.")
    endpoints = serializers.ListField(
        child=serializers.DictField(),
        help_text="Addresses of the node in the order in which to try them.",
    )
    node_key = serializers.CharField(
        help_text="X25519 public key of the node for this ticket, in base64."
    )
    ticket = serializers.CharField(help_text="Signed ticket in base64.")


class TicketsSerializer(serializers.Serializer[dict[str, Any]]):
    ca_pem = serializers.CharField(help_text="Certificate authority of the nodes, in PEM format.")
    expires_seconds = serializers.IntegerField(help_text="Validity of the tickets.")
    tickets = TicketSerializer(many=True)


SELECT_PARTITIONS = Select(
    lambda allocation_id: (
        Partition.objects.filter(allocation_id=allocation_id)
        .order_by("position")
        .values_list(
            "gpu__node_id",
            "gpu__node__name",
            "gpu__node__software",
            "gpu__uuid",
            "memory_bytes",
            "compute_percent",
            "gpu__node__locked_at",
            "gpu__node__lock_reason",
        )
    )
)
SELECT_ENDPOINTS = Select(
    lambda node_ids: (
        Endpoint.objects.filter(node_id__in=node_ids)
        .order_by("position")
        .values_list("node_id", *EndpointAddress._fields)
    )
)
SELECT_NETWORK = Select(lambda ids: Pool.objects.filter(pk__in=ids).values_list("network"))


class AllocationTicketView(ApplianceView):
    privileges: ClassVar[dict[str, str]] = {"POST": actions.TICKETS.privilege}
    error_codes: ClassVar[ErrorCodes] = {
        "POST": (
            Code.NOT_ACTIVE,
            Code.NODE_LOCKED,
        ),
    }
    read_only_methods: ClassVar[frozenset[str]] = frozenset({"POST"})

    @extend_schema(request=TicketRequestSerializer, responses=TicketsSerializer)
    def post(self, request: Request, allocation_id: UUID) -> Response:
        """Issue a ticket for each node of an allocation.

        The tickets are valid for five minutes and for the given client key only.
        """
        form = TicketRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        allocation = find_allocation(
            request, allocation_id, lambda ids: ALLOCATIONS_BY_ID.objects(ids=ids)
        )
        raise_refusal(actions.ticket_refusal(request_user(request), allocation))
        public_key = decode_key(form.validated_data["client_public_key"])
        address = request.META.get("REMOTE_ADDR", "")
        return Response(issue_tickets(allocation, public_key, client_address=address))


def decode_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:
        key = b""
    if len(key) != KEY_BYTES:
        raise ApplianceError(
            Code.INVALID, f"client_public_key must be {KEY_BYTES} bytes in base64."
        )
    return key


def issue_tickets(allocation: Allocation, public_key: bytes, client_address: str) -> dict[str, Any]:
    """Return the content of `TicketsSerializer` for an active allocation."""
    key, now = tickets.signing_key(), int(time.time())
    nodes: dict[tuple[UUID, str, bool], list[layouts.Partition]] = {}
    for node_id, name, software, gpu, *size, locked_at, lock_reason in SELECT_PARTITIONS.rows(
        allocation_id=allocation.pk
    ):
        if locked_at is not None:
            raise ApplianceError(Code.NODE_LOCKED, locked_message(name, lock_reason))
        nodes.setdefault((node_id, name, software), []).append(layouts.Partition(gpu.bytes, *size))
    endpoints: dict[UUID, list[EndpointAddress]] = {}
    for node_id, *address in SELECT_ENDPOINTS.rows(node_ids=[node_id for node_id, _, _ in nodes]):
        endpoints.setdefault(node_id, []).append(EndpointAddress(*address))
    network = preferred_network(allocation)
    issued = []
    for (node_id, name, software), partitions in nodes.items():
        ticket = tickets.issue(
            key=key,
            allocation_id=allocation.pk,
            node_id=node_id,
            fence=(allocation.fence_epoch, allocation.fence_counter),
            client_public_key=public_key,
            partitions=partitions,
            now_seconds=now,
        )
        ordered = sort_endpoints(
            endpoints.get(node_id, []), network=network, client_address=client_address
        )
        issued.append(
            {
                "node_id": node_id,
                "node": name,
                "software": software,
                "endpoints": [endpoint._asdict() for endpoint in ordered],
                "node_key": base64.b64encode(key.node_key(node_id)).decode(),
                "ticket": base64.b64encode(ticket).decode(),
            }
        )
    ca_pem = (settings.DATA_DIR / "ca.pem").read_text()
    return {"ca_pem": ca_pem, "expires_seconds": tickets.LIFETIME_SECONDS, "tickets": issued}


def preferred_network(allocation: Allocation) -> str:
    """Return the network of the pool of the allocation, or an empty string."""
    if not allocation.placed_pool_id:
        return ""
    rows = SELECT_NETWORK.rows(ids=[allocation.placed_pool_id])
    return next((network for (network,) in rows), "")
