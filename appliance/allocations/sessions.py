"""Single sessions as reported by nodes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from django.utils import timezone

from appliance.activity.events import emit
from appliance.allocations import idleness, leases
from appliance.allocations.models import AllocationState, Session, SessionState
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.telemetry import series
from nodes.protocol.session_ends import RELEASED, TOO_LATE

if TYPE_CHECKING:
    from nodes.protocol import fleet_pb2

COUNTERS = ("memory_bytes", "launches", "bytes_in", "bytes_out", "longest_drain_ms")
SAMPLED = (*COUNTERS, "compute_received_percent")
COUNTER_SAVE_INTERVAL_SECONDS = 5.0
CHANGE_ROWS = 4
"""Work of a change with its event, in rows that are written; counters are one row."""
MAX_REFUSED_CALLS = 64
"""Stored names of a session."""
SERIES = UUID("c2c1c1c0-6d0c-4d4b-9a0f-1a7b1f6c9b52")
"""Namespace of the ids of the samples of sessions."""
NOT_REPORTED = "the node no longer reports it"
ENDED = (AllocationState.RELEASING, AllocationState.RELEASED)
_counters_saved_at: dict[UUID, float] = {}


def series_id_of(session_id: UUID) -> UUID:
    """Return the id of the samples of a session.

    The node chooses the id of a session, and could name the samples of something else by it.
    """
    return uuid5(SERIES, session_id.hex)


def mean_share(received: Sequence[float]) -> float | None:
    """Return the mean over the GPUs that were given in turns; None without one."""
    known = [percent for percent in received if not math.isnan(percent)]
    return round(fmean(known), 2) if known else None


def open_session(node_id: UUID, report: fleet_pb2.Session) -> Session:
    session = Session.objects.create(
        id=UUID(bytes=report.id),
        allocation_id=UUID(bytes=report.allocation_id),
        node_id=node_id,
        state=SessionState.OPENING,
        pid=report.pid,
        client_pid=report.client_pid,
        client_address=report.client_address,
        program=report.program,
        opened_at=datetime.fromtimestamp(report.opened_seconds, UTC),
    )
    emit_session_event(
        session,
        "session.opened",
        f"{report.program} opened a session from {report.client_address}.",
    )
    return session


def apply_session_report(
    session: Session, report: fleet_pb2.Session, received: Sequence[float]
) -> int:
    """Update or close an open session. Return the number of written rows.

    `received` is the share of each GPU of its allocation on the node over the last minute, in the
    order of the grant; NaN: it was not given in turns.
    """
    rows = record_refused_calls(session, report.refused_calls)
    if report.state == SessionState.CLOSED:
        return rows + close_session(session, report.end_reason)
    return rows + update_session(session, report, received)


def update_session(session: Session, report: fleet_pb2.Session, received: Sequence[float]) -> int:
    """Record counters in memory; save changed columns, counters only every few seconds.

    Return the number of written rows.
    """
    counters = {name: getattr(report, name) for name in COUNTERS}
    counters["compute_received_percent"] = mean_share(received)
    sample = [math.nan if value is None else float(value) for value in counters.values()]
    series.record(SAMPLED, {series_id_of(session.pk): sample}, time.time())
    work_done = report.launches + report.bytes_in + report.bytes_out
    idleness.record_work(session.allocation_id, session.pk, work_done)
    values = {"state": report.state, "isolation": dict(report.isolation)}
    age = time.monotonic() - _counters_saved_at.get(session.pk, 0.0)
    compared = values | counters if age >= COUNTER_SAVE_INTERVAL_SECONDS else values
    if all(getattr(session, name) == value for name, value in compared.items()):
        return 0
    _counters_saved_at[session.pk] = time.monotonic()
    rows = Session.objects.filter(pk=session.pk).exclude(state=SessionState.CLOSED)
    if rows.update(**values, **counters):
        change_log.record(Topic.SESSION, session.pk)
    return 1


def record_refused_calls(session: Session, reported: Iterable[str]) -> int:
    """Add unsupported functions that the program called; they explain later failures.

    Return the number of written rows.
    """
    room = MAX_REFUSED_CALLS - len(session.refused_calls)
    names = [name for name in dict.fromkeys(reported) if name not in session.refused_calls][:room]
    if not names:
        return 0
    Session.objects.filter(pk=session.pk).update(refused_calls=[*session.refused_calls, *names])
    emit_session_event(
        session,
        "session.refused_calls",
        f"{session.program} called unsupported functions: {', '.join(names)}.",
    )
    change_log.record(Topic.SESSION, session.pk)
    return CHANGE_ROWS


def close_session(session: Session, reason: str) -> int:
    """Close an open session and renew the lease of its allocation.

    Return the number of written rows.
    """
    reason = reason_of_end(session, reason)
    if (
        not Session.objects.filter(pk=session.pk)
        .exclude(state=SessionState.CLOSED)
        .update(
            state=SessionState.CLOSED,
            closed_at=timezone.now(),
            end_reason=reason,
            memory_bytes=0,
            compute_received_percent=None,
        )
    ):
        return 0
    _counters_saved_at.pop(session.pk, None)
    change_log.record(Topic.SERIES_END, series_id_of(session.pk))
    idleness.forget_session(session.pk)
    leases.renew_lease(session.allocation_id)
    emit_session_event(
        session, "session.closed", f"The session of {session.program} ended: {reason}."
    )
    return CHANGE_ROWS


def reason_of_end(session: Session, reported: str) -> str:
    """Return why a session ended. If its allocation was released, that says who released it.

    If its work was late for too long, it names the pool with the limit.

    The reason of the allocation is stored before the node learns that its grant is revoked. A
    session that ended by itself keeps its own reason, also when the report comes later.
    """
    allocation = session.allocation
    if reported in (RELEASED, NOT_REPORTED) and allocation.state in ENDED:
        return allocation.end_reason[:200]
    if reported.startswith(TOO_LATE) and allocation.placed_pool:
        reported += f" (limit of pool {allocation.placed_pool.name})"
    return reported[:200]


def emit_session_event(session: Session, kind: str, message: str) -> None:
    allocation = session.allocation
    emit(
        kind,
        path=f"{allocation.path}/sessions/{session.pk}",
        object_id=session.pk,
        project_id=allocation.project_id,
        message=message,
    )
