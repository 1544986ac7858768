"""What agents send, bounded and typed."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from appliance.allocations import services as allocations
from appliance.allocations import sessions
from appliance.allocations.models import SessionState
from appliance.inventory import services as inventory
from appliance.inventory.models import Node
from appliance.prepared import Select, Update
from appliance.writer import writes
from nodes.protocol import fleet_pb2

MAX_GPUS, MAX_ENDPOINTS, MAX_REFUSED_CALLS, MAX_PARTITIONS = 64, 16, 64, 16


MAX_BYTES = MAX_COUNT = (1 << 63) - 1
"""What a row's column takes."""
MAX_INDEX, MAX_PORT, MAX_SECONDS = 1 << 12, (1 << 16) - 1, 1 << 40


def bounded(value: int, most: int) -> int:
    """Raises ValueError for what no node can mean."""
    if not 0 <= value <= most:
        raise ValueError(f"{value} is out of bounds")
    return value


def take(node_id: UUID, report: fleet_pb2.Report) -> None:
    """Blocks: writes what changed, if anything did."""
    bounded(report.generation, MAX_COUNT)
    quiet = not report.sessions and applied_by(node_id) == report.generation
    if not quiet or sessions.OPEN_SESSIONS.rows(node_id=node_id):
        record(node_id, report)


SET_APPLIED = Update(
    lambda node_id, reported: (
        Node.objects.filter(pk=node_id, applied_generation__lt=reported, generation__gte=reported),
        {"applied_generation": reported},
    ),
    returning=("id",),
)
APPLIED = Select(lambda node_id: Node.objects.filter(pk=node_id).values_list("applied_generation"))


def applied_by(node_id: UUID) -> int | None:
    return next((int(applied) for (applied,) in APPLIED.rows(node_id=node_id)), None)


@writes
def record(node_id: UUID, report: fleet_pb2.Report) -> None:
    listed = [session(s) for s in report.sessions]
    sessions.sessions_report(node_id=node_id, reported=listed)
    record_applied(
        node_id,
        report.generation,
        {s.allocation_id for s in listed if s.state != SessionState.CLOSED},
    )


@writes
def record_applied(node_id: UUID, generation: int, alive: Collection[UUID] = ()) -> None:
    """Only forward: an old report changes nothing. `alive`: allocations whose sessions the node still lists."""
    raised = SET_APPLIED.rows(node_id=node_id, reported=generation)
    applied = generation if raised else applied_by(node_id)
    if applied is not None and generation >= applied:
        allocations.generation_applied(node_id=node_id, generation=applied, alive=alive)


def node(message: fleet_pb2.AgentMessage) -> inventory.ReportedNode:
    i = message.inventory
    return inventory.ReportedNode(
        agent_version=i.agent_version,
        driver_version=i.driver_version,
        operating_system=i.operating_system,
        software=i.software,
        boot_id=message.boot_id,
        cuda_version=i.cuda_version,
        endpoints=tuple(
            (e.address[:255], bounded(e.port, MAX_PORT)) for e in i.endpoints[:MAX_ENDPOINTS]
        ),
        gpus=tuple(
            inventory.ReportedGpu(
                UUID(bytes=g.uuid),
                bounded(g.index, MAX_INDEX),
                g.model[:100],
                bounded(g.memory_bytes, MAX_BYTES),
                g.compute_capability[:10],
                g.pci_bus_id[:20],
                g.mig,
                tuple(
                    sorted((bounded(index, MAX_INDEX), way[:8]) for index, way in g.links.items())
                )[:MAX_GPUS],
            )
            for g in i.gpus[:MAX_GPUS]
        ),
    )


def session(s: fleet_pb2.Session) -> sessions.ReportedSession:
    return sessions.ReportedSession(
        session_id=UUID(bytes=s.id), allocation_id=UUID(bytes=s.allocation_id), state=s.state, pid=s.pid, client_pid=s.client_pid,
        client_address=s.client_address, program=s.program, isolation=dict(s.isolation), memory_bytes=bounded(s.memory_bytes, MAX_BYTES),
        launches=bounded(s.launches, MAX_COUNT), bytes_in=bounded(s.bytes_in, MAX_BYTES), bytes_out=bounded(s.bytes_out, MAX_BYTES),
        end_reason=s.end_reason, opened_seconds=bounded(s.opened_seconds, MAX_SECONDS),
        refused_calls=tuple(name[:64] for name in s.refused_calls[:MAX_REFUSED_CALLS]), partition_bytes=tuple(s.partition_bytes[:MAX_PARTITIONS]),
    )  # fmt: skip
