"""Conversion of the appliance's desired state to the launcher's grants."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping

from nodes.launcher_control import Grant, Grants, Partition
from nodes.launcher_layouts import TicketKey
from nodes.protocol import fleet_pb2


def to_grants(
    state: fleet_pb2.DesiredState,
    node_id: uuid.UUID,
    context_bytes: Mapping[uuid.UUID, int],
    assured: Collection[str] = (),
) -> Grants:
    """Return the complete grants of a desired state. Applying them twice changes nothing.

    `context_bytes` is the memory that a context takes, by GPU. The agent assures some layers of
    isolation itself. The launcher, which knows none of them, refuses sessions that need another.
    """
    return Grants(
        generation=state.generation,
        appliance_seconds=state.appliance_seconds,
        node_id=node_id,
        keys=tuple(TicketKey(k.id, k.public_key, k.node_secret) for k in state.ticket_keys),
        grants=tuple(
            Grant(
                allocation_id=uuid.UUID(bytes=g.allocation_id),
                tenant_id=uuid.UUID(bytes=g.tenant_id),
                fence_epoch=g.fence_epoch,
                fence_counter=g.fence_counter,
                partitions=tuple(
                    Partition(gpu, p.memory_bytes, p.compute_percent, context_bytes.get(gpu, 0))
                    for p in g.partitions
                    for gpu in (uuid.UUID(bytes=p.gpu_uuid),)
                ),
                required_isolation=frozenset(g.required_isolation).difference(assured),
                compute_mode=g.compute_mode or "shared",
                max_late_seconds=g.max_late_seconds,
            )
            for g in state.grants
        ),
    )
