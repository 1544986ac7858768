"""Desired state to what the launcher shall hold. Pure."""

from __future__ import annotations

import uuid

from nodes.launcher_control import Grant, Grants, Partition
from nodes.protocol import fleet_pb2


def grants_of(state: fleet_pb2.DesiredState, node_id: uuid.UUID) -> Grants:
    """The whole of it, every time: applying it twice changes nothing."""
    return Grants(
        generation=state.generation,
        appliance_seconds=state.appliance_seconds,
        node_id=node_id,
        keys=tuple((k.id, k.public_key) for k in state.ticket_keys),
        grants=tuple(
            Grant(
                allocation_id=uuid.UUID(bytes=g.allocation_id),
                tenant_id=uuid.UUID(bytes=g.tenant_id),
                fence_epoch=g.fence_epoch,
                fence_counter=g.fence_counter,
                partitions=tuple(
                    Partition(uuid.UUID(bytes=p.gpu_uuid), p.memory_bytes, p.compute_percent)
                    for p in g.partitions
                ),
            )
            for g in state.grants
        ),
    )
