"""Desired state of one node, built from database rows."""

from __future__ import annotations

import time
from typing import Any, NamedTuple
from uuid import UUID

from appliance.allocations.models import HOLDING, Partition, SuspensionState
from appliance.allocations.tickets import accepted_keys
from appliance.db.prepared import Select
from appliance.fleet.authorities import authorities
from appliance.inventory.generations import current_generation
from appliance.pools.isolation import LAYERS, IsolationLevel
from nodes.protocol import fleet_pb2


class DesiredPartition(NamedTuple):
    """Columns of a partition, its GPU and its allocation; the fields are Django lookups."""

    allocation__state: str
    allocation_id: UUID
    allocation__project_id: UUID
    allocation__fence_epoch: int
    allocation__fence_counter: int
    allocation__granted_compute_mode: str
    gpu__uuid: UUID
    memory_bytes: int
    compute_percent: int
    allocation__placed_pool__required_isolation: str | None
    allocation__placed_pool__max_late_seconds: int | None
    allocation__suspension: str
    allocation__suspension_revision: int


WANTED: dict[str, str] = {
    SuspensionState.SUSPENDING: "suspend",
    SuspensionState.SUSPENDED: "hold",
    SuspensionState.WAITING: "hold",
    SuspensionState.RESUMING: "resume",
}
IDLE_WAIT_SECONDS = 30
"""Time that a session has to end its work before a suspension is abandoned."""
GRANTS = Select(
    lambda node_id: (
        Partition.objects.filter(gpu__node_id=node_id)
        .order_by("allocation_id", "position")
        .values_list(*DesiredPartition._fields)
    )
)


def build_desired_state(node_id: UUID) -> fleet_pb2.DesiredState:
    """Return the complete desired state of a node. Reads the database.

    The node ends every grant that the state does not contain.
    """
    state = fleet_pb2.DesiredState(
        generation=current_generation(node_id),
        ticket_keys=[
            fleet_pb2.TicketKey(
                id=key.key_id, public_key=key.public, node_secret=key.node_secret(node_id)
            )
            for key in accepted_keys()
        ],
        authorities=[bytes.fromhex(a.fingerprint) for a in authorities()],
        appliance_seconds=int(time.time()),
    )
    grants: dict[UUID, fleet_pb2.Grant] = {}
    for row in map(DesiredPartition._make, GRANTS.rows(node_id=node_id)):
        if row.allocation__state not in HOLDING:
            continue
        grant = grants.get(row.allocation_id)
        if grant is None:
            grant = grants[row.allocation_id] = grant_without_partitions(row)
        grant.partitions.append(
            fleet_pb2.Partition(
                gpu_uuid=row.gpu__uuid.bytes,
                memory_bytes=row.memory_bytes,
                compute_percent=row.compute_percent,
            )
        )
    state.grants.extend(grants.values())
    return state


def grant_without_partitions(row: DesiredPartition) -> fleet_pb2.Grant:
    isolation = row.allocation__placed_pool__required_isolation
    return fleet_pb2.Grant(
        allocation_id=row.allocation_id.bytes,
        tenant_id=row.allocation__project_id.bytes,
        fence_epoch=row.allocation__fence_epoch,
        fence_counter=row.allocation__fence_counter,
        compute_mode=row.allocation__granted_compute_mode,
        required_isolation=sorted(LAYERS[IsolationLevel(isolation or "any")]),
        max_late_seconds=row.allocation__placed_pool__max_late_seconds or 0,
        **desired_suspension(row.allocation__suspension, row.allocation__suspension_revision),
    )


def desired_suspension(suspension: str, revision: int) -> dict[str, Any]:
    """Return the fields of a grant about a suspension; none if nothing is desired."""
    if not (wanted := WANTED.get(suspension)):
        return {}
    return {
        "suspension": wanted,
        "suspension_revision": revision,
        "suspension_wait_seconds": IDLE_WAIT_SECONDS if wanted == "suspend" else 0,
    }
