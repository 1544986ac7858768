"""Sessions as nodes report them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.utils import timezone

from appliance.activity.feed import hub
from appliance.activity.services import emit
from appliance.allocations import holding
from appliance.allocations.models import Allocation, Session, SessionState
from appliance.writer import writes


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


@writes
def sessions_report(*, node_id: UUID, reported: Iterable[ReportedSession]) -> None:
    """The node's sessions as its launcher sees them. Those it no longer lists are closed."""
    seen = set()
    for r in reported:
        seen.add(r.session_id)
        record_session(node_id, r)
    for gone in Session.objects.filter(node_id=node_id).exclude(state=SessionState.CLOSED).exclude(pk__in=seen):
        close_session(gone, "the node no longer lists it")


def record_session(node_id: UUID, r: ReportedSession) -> None:
    known = Session.objects.filter(pk=r.session_id, node_id=node_id).first()
    if known is None:
        allocation = Allocation.objects.filter(pk=r.allocation_id, partitions__gpu__node_id=node_id).first()
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
    if all(getattr(known, name) == value for name, value in news.items()):
        return
    if Session.objects.filter(pk=known.pk).exclude(state=SessionState.CLOSED).update(**news):
        hub.changed("session", known.pk)


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
        .update(state=SessionState.CLOSED, closed_at=timezone.now(), end_reason=reason[:200], memory_bytes=0)
    ):
        allocation = session.allocation
        holding.held(allocation.pk)
        emit(
            "session.closed", path=f"{allocation.path}/sessions/{session.pk}", object_id=session.pk, project_id=allocation.project_id,
            message=f"The session of {session.program} ended: {reason}.",
        )  # fmt: skip
