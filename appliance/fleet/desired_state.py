"""Rows to the whole desired state of one node. Pure but for the reads."""

from __future__ import annotations

import time
from uuid import UUID

from appliance.allocations.models import HOLDING, Partition
from appliance.allocations.tickets import signing_key
from appliance.inventory.models import Node
from nodes.protocol import fleet_pb2


def desired_state(node_id: UUID) -> fleet_pb2.DesiredState:
    """Reads the database. What is not in it, the node ends."""
    key = signing_key()
    state = fleet_pb2.DesiredState(
        generation=Node.objects.values_list("generation", flat=True).get(pk=node_id),
        ticket_keys=[fleet_pb2.TicketKey(id=key.key_id, public_key=key.public)],
        appliance_seconds=int(time.time()),
    )
    grants: dict[UUID, fleet_pb2.Grant] = {}
    rows = (
        Partition.objects.filter(gpu__node_id=node_id, allocation__state__in=HOLDING).select_related("allocation", "gpu").order_by("allocation_id", "position")
    )
    for p in rows:
        grant = grants.get(p.allocation_id)
        if grant is None:
            a = p.allocation
            grant = grants[p.allocation_id] = fleet_pb2.Grant(
                allocation_id=a.pk.bytes, tenant_id=a.project_id.bytes, fence_epoch=a.fence_epoch, fence_counter=a.fence_counter
            )
        grant.partitions.append(fleet_pb2.Partition(gpu_uuid=p.gpu.uuid.bytes, memory_bytes=p.memory_bytes, compute_percent=p.compute_percent))
    state.grants.extend(grants.values())
    return state
