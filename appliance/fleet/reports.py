"""Processing of agent messages that the gateway has checked: inventory and reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from django.db.models import Exists, OuterRef

from appliance.allocations import services as allocations
from appliance.allocations import session_reports, suspending
from appliance.allocations.models import Partition, SessionState
from appliance.allocations.session_reports import Progress, Shares
from appliance.db.prepared import Select, Update
from appliance.db.writer import write_transaction
from appliance.inventory import reports as inventory
from appliance.inventory.models import Node
from appliance.pools.isolation import level_of, missing_of
from nodes.protocol import fleet_pb2

MAX_UNFINISHED_REPORTS = 8
"""Kept parsed between their parts. The gateway lets few nodes at a time send parts."""


class ParsedReport(NamedTuple):
    encoded: bytes
    report: fleet_pb2.Report
    shares: Shares


class UnfinishedReports:
    """Reports of which parts are applied, parsed, so that the next part parses nothing again.

    Not thread-safe: requests of the gateway with reports run on the writer thread.
    """

    def __init__(self) -> None:
        self._by_node: dict[UUID, ParsedReport] = {}

    def process(self, node_id: UUID, encoded: bytes, position: int) -> Progress:
        """Process an encoded report from a position of its sessions, see `process_report`."""
        parsed = self._by_node.pop(node_id, None)
        if parsed is None or parsed.encoded != encoded:
            report = fleet_pb2.Report.FromString(encoded)
            parsed = ParsedReport(encoded, report, shares_of(report))
        progress = process_report(node_id, parsed.report, position, parsed.shares)
        if progress.more:
            self._by_node[node_id] = parsed
            if len(self._by_node) > MAX_UNFINISHED_REPORTS:  # the first one's node may be gone
                del self._by_node[next(iter(self._by_node))]
        return progress


def process_report(
    node_id: UUID, report: fleet_pb2.Report, position: int = 0, shares: Shares | None = None
) -> Progress:
    """Process a report, which the gateway has checked, from a position of its sessions.

    Writes only if something changed. `shares` are those of the report, if they are known.
    """
    unchanged = not (report.sessions or report.suspensions) and applied(node_id) == (
        report.generation,
        False,
    )
    if not unchanged or session_reports.OPEN_IDS.rows(node_id=node_id):
        return record_report(node_id, report, position, shares or shares_of(report))
    return Progress(0, 0, 0, False)


SET_APPLIED = Update(
    lambda node_id, reported: (
        Node.objects.filter(pk=node_id, applied_generation__lt=reported, generation__gte=reported),
        {"applied_generation": reported},
    ),
    returning=("id",),
)
APPLIED = Select(
    lambda node_id: Node.objects.filter(pk=node_id).values_list(
        "applied_generation",
        Exists(Partition.objects.filter(gpu__node=OuterRef("pk"), resizing=True)),
    )
)


def applied(node_id: UUID) -> tuple[int, bool] | None:
    """Return the generation that a node has applied, and whether partitions on it are resized."""
    rows = APPLIED.rows(node_id=node_id)
    return next(((int(generation), bool(resizing)) for generation, resizing in rows), None)


@write_transaction
def record_report(
    node_id: UUID, report: fleet_pb2.Report, position: int, shares: Shares
) -> Progress:
    progress = session_reports.record_sessions(
        node_id=node_id, reported=report.sessions, shares=shares, position=position
    )
    if not progress.more:
        alive = {s.allocation_id for s in report.sessions if s.state != SessionState.CLOSED}
        record_applied(
            node_id, report.generation, {UUID(bytes=a) for a in alive}, parse_over(report)
        )
        if report.suspensions:
            reported = {UUID(bytes=s.allocation_id): s for s in report.suspensions}
            written = suspending.record_reports(node_id, reported)
            return progress._replace(rows=progress.rows + written)
    return progress


@write_transaction
def record_applied(
    node_id: UUID,
    generation: int,
    alive: Collection[UUID] = (),
    over: Mapping[UUID, Sequence[int]] | None = None,
) -> None:
    """Record the generation that a node has applied. An older generation changes nothing.

    `alive` are the allocations whose sessions the node still reports, `over` those that hold more
    memory than their size, with the bytes; None: the agent does not tell.
    """
    raised = SET_APPLIED.rows(node_id=node_id, reported=generation)
    known = generation if raised else (applied(node_id) or (None,))[0]
    if known is not None and generation >= known:
        allocations.record_applied_generation(
            node_id=node_id, generation=known, alive=alive, over=over
        )


def shares_of(report: fleet_pb2.Report) -> Shares:
    return {s.allocation_id: tuple(s.received_percent) for s in report.shares}


def parse_over(report: fleet_pb2.Report) -> dict[UUID, Sequence[int]] | None:
    if not report.knows_over:
        return None
    return {UUID(bytes=h.allocation_id): tuple(h.held_bytes) for h in report.over}


def parse_inventory(message: fleet_pb2.AgentMessage) -> inventory.ReportedNode:
    i = message.inventory
    return inventory.ReportedNode(
        agent_version=i.agent_version,
        driver_version=i.driver_version,
        operating_system=i.operating_system,
        software=i.software,
        boot_id=message.boot_id,
        cuda_version=i.cuda_version,
        isolation=level_of(i.isolation) if i.isolation else None,
        missing_layers=tuple(missing_of(i.isolation)),
        suspends_sessions=i.suspends,
        resizes_allocations=i.resizes,
        endpoints=tuple((e.address, e.port) for e in i.endpoints),
        gpus=tuple(parse_gpu(g) for g in i.gpus),
    )


def parse_gpu(g: fleet_pb2.Gpu) -> inventory.ReportedGpu:
    return inventory.ReportedGpu(
        UUID(bytes=g.uuid),
        g.index,
        g.model[:100],
        g.memory_bytes,
        g.compute_capability[:10],
        g.pci_bus_id,
        g.mig,
        tuple(sorted(g.links.items())),
        g.context_bytes if g.HasField("context_bytes") else None,
    )
