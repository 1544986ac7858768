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

COLUMNS = (
    "allocation__state",
    "allocation_id",
    "allocation__project_id",
    "allocation__fence_epoch",
    "allocation__fence_counter",
    "allocation__granted_compute_mode",
    "gpu__uuid",
    "memory_bytes",
    "compute_percent",
    "allocation__placed_pool__required_isolation",
    "allocation__placed_pool__max_late_seconds",
    "allocation__suspension",
    "allocation__suspension_revision",
)


class DesiredPartition(NamedTuple):
    """Values of COLUMNS."""

    state: str
    allocation_id: UUID
    project_id: UUID
    fence_epoch: int
    fence_counter: int
    compute_mode: str
    gpu_uuid: UUID
    memory_bytes: int
    compute_percent: int
    required_isolation: str | None
    max_late_seconds: int | None
    suspension: str
    suspension_revision: int


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
        .values_list(*COLUMNS)
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
        if row.state not in HOLDING:
            continue
        grant = grants.get(row.allocation_id)
        if grant is None:
            grant = grants[row.allocation_id] = grant_without_partitions(row)
        grant.partitions.append(
            fleet_pb2.Partition(
                gpu_uuid=row.gpu_uuid.bytes,
                memory_bytes=row.memory_bytes,
                compute_percent=row.compute_percent,
            )
        )
    state.grants.extend(grants.values())
    return state


def grant_without_partitions(row: DesiredPartition) -> fleet_pb2.Grant:
    return fleet_pb2.Grant(
        allocation_id=row.allocation_id.bytes,
        tenant_id=row.project_id.bytes,
        fence_epoch=row.fence_epoch,
        fence_counter=row.fence_counter,
        compute_mode=row.compute_mode,
        required_isolation=sorted(LAYERS[IsolationLevel(row.required_isolation or "any")]),
        max_late_seconds=row.max_late_seconds or 0,
        **desired_suspension(row.suspension, row.suspension_revision),
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
