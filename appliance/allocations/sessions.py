"""Sessions as nodes report them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.utils import timezone

from appliance.activity.feed import hub
from appliance.activity.services import emit
from appliance.allocations import holding, idleness
from appliance.allocations.models import Allocation, Partition, Session, SessionState
from appliance.prepared import Select
from appliance.telemetry import series
from appliance.writer import writes

COUNTERS = ("memory_bytes", "launches", "bytes_in", "bytes_out")
COUNTERS_SECONDS = 5.0
OPEN_SESSIONS = Select(
    lambda node_id: Session.objects.filter(node_id=node_id).exclude(state=SessionState.CLOSED)
)
_counted: dict[UUID, float] = {}


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
    """Held of each of the allocation's partitions on the node, in the order of its grant."""


@writes
def sessions_report(*, node_id: UUID, reported: Iterable[ReportedSession]) -> None:
    """The node's sessions as its launcher sees them. Those it no longer lists are closed."""
    seen, rows = set(), list(reported)
    for r in rows:
        seen.add(r.session_id)
        record_session(node_id, r)
    for gone in OPEN_SESSIONS.objects(node_id=node_id):
        if gone.pk not in seen:
            close_session(gone, "the node no longer lists it")
    if rows:
        count_partitions(node_id, rows)


def count_partitions(node_id: UUID, reported: Iterable[ReportedSession]) -> None:
    """Memory and launches of each partition on the node, over all its sessions."""
    held: dict[UUID, list[ReportedSession]] = {}
    for r in reported:
        held.setdefault(r.allocation_id, []).append(r)
    readings: dict[UUID, list[float]] = {}
    position: Counter[UUID] = Counter()
    for partition_id, allocation_id in (
        Partition.objects.filter(gpu__node_id=node_id)
        .order_by("position")
        .values_list("pk", "allocation_id")
    ):
        here = held.get(allocation_id, [])
        index, position[allocation_id] = position[allocation_id], position[allocation_id] + 1
        used = sum(r.partition_bytes[index] for r in here if index < len(r.partition_bytes))
        readings[partition_id] = [
            float(used),
            float(sum(r.state != SessionState.CLOSED for r in here)),
        ]
    series.record(("memory_bytes", "sessions"), readings, time.time())


def record_session(node_id: UUID, r: ReportedSession) -> None:
    known = Session.objects.filter(pk=r.session_id, node_id=node_id).first()
    if known is None:
        allocation = Allocation.objects.filter(
            pk=r.allocation_id, partitions__gpu__node_id=node_id
        ).first()
        if allocation is None:
            return  # not of this node, or of an allocation that is gone: an agent speaks for its own rows only
        known = Session.objects.create(
            id=r.session_id, allocation=allocation, node_id=node_id, state=SessionState.OPENING, pid=r.pid, client_pid=r.client_pid,
            client_address=r.client_address[:64], program=r.program[:64], opened_at=datetime.fromtimestamp(r.opened_seconds, UTC),
        )  # fmt: skip
        emit(
            "session.opened", path=f"{allocation.path}/sessions/{known.pk}", object_id=known.pk, project_id=allocation.project_id,
            message=f"{r.program} opened a session from {r.client_address}.",
        )  # fmt: skip
    if new := [name for name in r.refused_calls if name not in known.refused_calls]:
        note_refused(known, new)
    if r.state == SessionState.CLOSED:
        close_session(known, r.end_reason)
        return
    news = {
        "state": r.state,
        "isolation": r.isolation,
        "memory_bytes": r.memory_bytes,
        "launches": r.launches,
        "bytes_in": r.bytes_in,
        "bytes_out": r.bytes_out,
    }
    count(known, news)
    idleness.worked(known.allocation_id, known.pk, r.launches + r.bytes_in + r.bytes_out)
    if all(
        getattr(known, name) == value
        for name, value in news.items()
        if name not in COUNTERS or due(known)
    ):
        return
    _counted[known.pk] = time.monotonic()
    if Session.objects.filter(pk=known.pk).exclude(state=SessionState.CLOSED).update(**news):
        hub.changed("session", known.pk)


def count(session: Session, news: Mapping[str, object]) -> None:
    series.record(COUNTERS, {session.pk: [float(news[name]) for name in COUNTERS]}, time.time())  # type: ignore[arg-type]


def due(session: Session) -> bool:
    """Counters change all the time: rows learn of them every few seconds, readers have them from memory."""
    return time.monotonic() - _counted.get(session.pk, 0.0) >= COUNTERS_SECONDS


def note_refused(session: Session, names: list[str]) -> None:
    """The program called functions that are not there: what people look for when it then fails."""
    Session.objects.filter(pk=session.pk).update(refused_calls=[*session.refused_calls, *names])
    allocation = session.allocation
    emit(
        "session.refused_calls", path=f"{allocation.path}/sessions/{session.pk}", object_id=session.pk, project_id=allocation.project_id,
        message=f"{session.program} called what is not supported yet: {', '.join(names)}.",
    )  # fmt: skip
    hub.changed("session", session.pk)


def close_session(session: Session, reason: str) -> None:
    if (
        Session.objects.filter(pk=session.pk)
        .exclude(state=SessionState.CLOSED)
        .update(
            state=SessionState.CLOSED,
            closed_at=timezone.now(),
            end_reason=reason[:200],
            memory_bytes=0,
        )
    ):
        _counted.pop(session.pk, None)
        series.end(session.pk)
        idleness.session_ended(session.pk)
        allocation = session.allocation
        holding.held(allocation.pk)
        emit(
            "session.closed", path=f"{allocation.path}/sessions/{session.pk}", object_id=session.pk, project_id=allocation.project_id,
            message=f"The session of {session.program} ended: {reason}.",
        )  # fmt: skip
