"""Sessions and partition usage as reported by nodes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.utils import timezone

from appliance.activity.events import emit
from appliance.allocations import idleness, leases
from appliance.allocations.models import Allocation, Partition, Session, SessionState
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.prepared import Select
from appliance.db.writer import write_transaction
from appliance.telemetry import series

COUNTERS = ("memory_bytes", "launches", "bytes_in", "bytes_out")
COUNTER_SAVE_INTERVAL_SECONDS = 5.0
OPEN_SESSIONS = Select(
    lambda node_id: Session.objects.filter(node_id=node_id).exclude(state=SessionState.CLOSED)
)
_counters_saved_at: dict[UUID, float] = {}


@dataclass(frozen=True)
class ReportedSession:
    session_id: UUID
    allocation_id: UUID
    state: str
    pid: int
    client_pid: int
    client_address: str
    program: str
    isolation: dict[str, object]
    memory_bytes: int
    launches: int
    bytes_in: int
    bytes_out: int
    end_reason: str
    opened_seconds: int
    refused_calls: tuple[str, ...] = ()
    partition_bytes: tuple[int, ...] = ()
    """Memory used in each partition of the allocation on the node, in the order of its grant."""


@write_transaction
def record_sessions(*, node_id: UUID, reported: Iterable[ReportedSession]) -> None:
    """Record all sessions of a node. Open sessions that are not in the report are closed."""
    seen, reports = set(), list(reported)
    for report in reports:
        seen.add(report.session_id)
        record_session(node_id, report)
    for session in OPEN_SESSIONS.objects(node_id=node_id):
        if session.pk not in seen:
            close_session(session, "the node no longer reports it")
    if reports:
        sample_partitions(node_id, reports)


def sample_partitions(node_id: UUID, reported: Iterable[ReportedSession]) -> None:
    """Record memory use and number of open sessions of each partition on the node."""
    sessions: dict[UUID, list[ReportedSession]] = {}
    for report in reported:
        sessions.setdefault(report.allocation_id, []).append(report)
    samples: dict[UUID, list[float]] = {}
    position: Counter[UUID] = Counter()
    for partition_id, allocation_id in (
        Partition.objects.filter(gpu__node_id=node_id)
        .order_by("position")
        .values_list("pk", "allocation_id")
    ):
        here = sessions.get(allocation_id, [])
        index, position[allocation_id] = position[allocation_id], position[allocation_id] + 1
        used = sum(r.partition_bytes[index] for r in here if index < len(r.partition_bytes))
        open_sessions = sum(r.state != SessionState.CLOSED for r in here)
        samples[partition_id] = [float(used), float(open_sessions)]
    series.record(("memory_bytes", "sessions"), samples, time.time())


def record_session(node_id: UUID, report: ReportedSession) -> None:
    """Create or update one session. A node can report only sessions of its own partitions."""
    session = Session.objects.filter(pk=report.session_id, node_id=node_id).first()
    session = session or open_session(node_id, report)
    if session is None:
        return
    if refused := [name for name in report.refused_calls if name not in session.refused_calls]:
        record_refused_calls(session, refused)
    if report.state == SessionState.CLOSED:
        close_session(session, report.end_reason)
    else:
        update_session(session, report)


def open_session(node_id: UUID, report: ReportedSession) -> Session | None:
    """Create a session, or return None if the node has no partition of the allocation."""
    allocation = Allocation.objects.filter(
        pk=report.allocation_id, partitions__gpu__node_id=node_id
    ).first()
    if allocation is None:
        return None
    session = Session.objects.create(
        id=report.session_id,
        allocation=allocation,
        node_id=node_id,
        state=SessionState.OPENING,
        pid=report.pid,
        client_pid=report.client_pid,
        client_address=report.client_address[:64],
        program=report.program[:64],
        opened_at=datetime.fromtimestamp(report.opened_seconds, UTC),
    )
    emit_session_event(
        session,
        "session.opened",
        f"{report.program} opened a session from {report.client_address}.",
    )
    return session


def update_session(session: Session, report: ReportedSession) -> None:
    """Record counters in memory; save changed columns, counters only every few seconds."""
    counters = {name: getattr(report, name) for name in COUNTERS}
    series.record(COUNTERS, {session.pk: list(map(float, counters.values()))}, time.time())
    work_done = report.launches + report.bytes_in + report.bytes_out
    idleness.record_work(session.allocation_id, session.pk, work_done)
    values = {"state": report.state, "isolation": report.isolation}
    age = time.monotonic() - _counters_saved_at.get(session.pk, 0.0)
    compared = values | counters if age >= COUNTER_SAVE_INTERVAL_SECONDS else values
    if all(getattr(session, name) == value for name, value in compared.items()):
        return
    _counters_saved_at[session.pk] = time.monotonic()
    rows = Session.objects.filter(pk=session.pk).exclude(state=SessionState.CLOSED)
    if rows.update(**values, **counters):
        change_log.record(Topic.SESSION, session.pk)


def record_refused_calls(session: Session, names: list[str]) -> None:
    """Add unsupported functions that the program called; they explain later failures."""
    Session.objects.filter(pk=session.pk).update(refused_calls=[*session.refused_calls, *names])
    emit_session_event(
        session,
        "session.refused_calls",
        f"{session.program} called unsupported functions: {', '.join(names)}.",
    )
    change_log.record(Topic.SESSION, session.pk)


def close_session(session: Session, reason: str) -> None:
    """Close an open session and renew the lease of its allocation."""
    if (
        not Session.objects.filter(pk=session.pk)
        .exclude(state=SessionState.CLOSED)
        .update(
            state=SessionState.CLOSED,
            closed_at=timezone.now(),
            end_reason=reason[:200],
            memory_bytes=0,
        )
    ):
        return
    _counters_saved_at.pop(session.pk, None)
    change_log.record(Topic.SERIES_END, session.pk)
    idleness.forget_session(session.pk)
    leases.renew_lease(session.allocation_id)
    emit_session_event(
        session, "session.closed", f"The session of {session.program} ended: {reason}."
    )


def emit_session_event(session: Session, kind: str, message: str) -> None:
    allocation = session.allocation
    emit(
        kind,
        path=f"{allocation.path}/sessions/{session.pk}",
        object_id=session.pk,
        project_id=allocation.project_id,
        message=message,
    )
