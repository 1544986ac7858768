"""Validation and processing of agent messages: inventory and reports."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from appliance.allocations import services as allocations
from appliance.allocations import sessions
from appliance.allocations.models import SessionState
from appliance.db.prepared import Select, Update
from appliance.db.writer import write_transaction
from appliance.inventory import reports as inventory
from appliance.inventory.models import Node
from nodes.protocol import fleet_pb2

MAX_GPUS, MAX_ENDPOINTS, MAX_REFUSED_CALLS, MAX_PARTITIONS = 64, 16, 64, 16
MAX_BYTES = MAX_COUNT = (1 << 63) - 1
"""The largest value of a database column."""
MAX_INDEX, MAX_PORT, MAX_SECONDS = 1 << 12, (1 << 16) - 1, 1 << 40


def check_range(value: int, maximum: int) -> int:
    """Return the value. Raises ValueError if it is not in 0..maximum."""
    if not 0 <= value <= maximum:
        raise ValueError(f"{value} is not between 0 and {maximum}")
    return value


def process_report(node_id: UUID, report: fleet_pb2.Report) -> None:
    """Process a report of a node. Blocks; writes only if something changed."""
    check_range(report.generation, MAX_COUNT)
    unchanged = not report.sessions and applied_generation(node_id) == report.generation
    if not unchanged or sessions.OPEN_SESSIONS.rows(node_id=node_id):
        record_report(node_id, report)


SET_APPLIED = Update(
    lambda node_id, reported: (
        Node.objects.filter(pk=node_id, applied_generation__lt=reported, generation__gte=reported),
        {"applied_generation": reported},
    ),
    returning=("id",),
)
APPLIED = Select(lambda node_id: Node.objects.filter(pk=node_id).values_list("applied_generation"))


def applied_generation(node_id: UUID) -> int | None:
    return next((int(applied) for (applied,) in APPLIED.rows(node_id=node_id)), None)


@write_transaction
def record_report(node_id: UUID, report: fleet_pb2.Report) -> None:
    reported = [parse_session(s) for s in report.sessions]
    sessions.record_sessions(node_id=node_id, reported=reported)
    record_applied(
        node_id,
        report.generation,
        {s.allocation_id for s in reported if s.state != SessionState.CLOSED},
    )


@write_transaction
def record_applied(node_id: UUID, generation: int, alive: Collection[UUID] = ()) -> None:
    """Record the generation that a node has applied. An older generation changes nothing.

    `alive` are the allocations whose sessions the node still reports.
    """
    raised = SET_APPLIED.rows(node_id=node_id, reported=generation)
    applied = generation if raised else applied_generation(node_id)
    if applied is not None and generation >= applied:
        allocations.record_applied_generation(node_id=node_id, generation=applied, alive=alive)


def parse_inventory(message: fleet_pb2.AgentMessage) -> inventory.ReportedNode:
    """Return the inventory of a message. Raises ValueError for values out of range."""
    i = message.inventory
    return inventory.ReportedNode(
        agent_version=i.agent_version,
        driver_version=i.driver_version,
        operating_system=i.operating_system,
        software=i.software,
        boot_id=message.boot_id,
        cuda_version=i.cuda_version,
        endpoints=tuple(
            (e.address[:255], check_range(e.port, MAX_PORT)) for e in i.endpoints[:MAX_ENDPOINTS]
        ),
        gpus=tuple(parse_gpu(g) for g in i.gpus[:MAX_GPUS]),
    )


def parse_gpu(g: fleet_pb2.Gpu) -> inventory.ReportedGpu:
    links = sorted((check_range(index, MAX_INDEX), kind[:8]) for index, kind in g.links.items())
    return inventory.ReportedGpu(
        UUID(bytes=g.uuid),
        check_range(g.index, MAX_INDEX),
        g.model[:100],
        check_range(g.memory_bytes, MAX_BYTES),
        g.compute_capability[:10],
        g.pci_bus_id[:20],
        g.mig,
        tuple(links)[:MAX_GPUS],
    )


def parse_session(s: fleet_pb2.Session) -> sessions.ReportedSession:
    """Return a reported session. Raises ValueError for values out of range."""
    return sessions.ReportedSession(
        session_id=UUID(bytes=s.id),
        allocation_id=UUID(bytes=s.allocation_id),
        state=s.state,
        pid=s.pid,
        client_pid=s.client_pid,
        client_address=s.client_address,
        program=s.program,
        isolation=dict(s.isolation),
        memory_bytes=check_range(s.memory_bytes, MAX_BYTES),
        launches=check_range(s.launches, MAX_COUNT),
        bytes_in=check_range(s.bytes_in, MAX_BYTES),
        bytes_out=check_range(s.bytes_out, MAX_BYTES),
        end_reason=s.end_reason,
        opened_seconds=check_range(s.opened_seconds, MAX_SECONDS),
        refused_calls=tuple(name[:64] for name in s.refused_calls[:MAX_REFUSED_CALLS]),
        partition_bytes=tuple(s.partition_bytes[:MAX_PARTITIONS]),
    )
