"""Reports of nodes about all their sessions, applied in short transactions.

Each transaction continues where the one before it ended, so a session is compared once per report.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F

from appliance.allocations import sessions
from appliance.allocations.models import Partition, Session, SessionState
from appliance.db.prepared import Select
from appliance.db.writer import write_transaction
from appliance.inventory.models import Node
from appliance.telemetry import series

if TYPE_CHECKING:
    from nodes.protocol import fleet_pb2

Shares = Mapping[bytes, Sequence[float]]
"""Received share of each GPU of an allocation on the node, by its id (sessions.py)."""
MAX_ROWS, MAX_COMPARED = 64, 256
"""Rows that one transaction writes and sessions that it compares, so that a large report does not
delay other writes."""
SLICE, CLOSED_TOGETHER = 64, 16
"""Sessions that are loaded together to be compared or closed."""
OPEN_SESSIONS = Select(
    lambda ids, node_id: Session.objects.filter(pk__in=ids, node_id=node_id).exclude(
        state=SessionState.CLOSED
    )
)
OPEN_IDS = Select(
    lambda node_id: (
        Session.objects.filter(node_id=node_id).exclude(state=SessionState.CLOSED).values_list("pk")
    )
)
STORED_IDS = Select(lambda ids: Session.objects.filter(pk__in=ids).values_list("pk"))
GRANTED = Select(
    lambda node_id: (
        Partition.objects.filter(gpu__node_id=node_id)
        .order_by("position")
        .values_list("allocation_id", "pk")
    )
)
PARTITION_METRICS = ("memory_bytes", "sessions", "compute_received_percent")
_ignored: dict[UUID, frozenset[UUID]] = {}
"""Sessions in each node's newest report that are of no allocation of the node."""


class Progress(NamedTuple):
    """The part of a report that one transaction has applied."""

    rows: int
    """Rows that it has written."""
    compared: int
    """Sessions that it has compared."""
    position: int
    """Number of sessions of the report that are applied."""
    more: bool
    """True if another transaction must continue."""


def padded(ids: Collection[UUID]) -> list[UUID]:
    """Repeat the last id up to a power of two: each length has a prepared statement of its own."""
    listed = list(ids)
    return listed + listed[-1:] * ((1 << (len(listed) - 1).bit_length()) - len(listed))


@write_transaction
def record_sessions(
    *,
    node_id: UUID,
    reported: Sequence[fleet_pb2.Session],
    shares: Shares = MappingProxyType({}),
    position: int = 0,
) -> Progress:
    """Record all sessions of a node, from a position. Open ones that are not reported are closed.

    Sessions of allocations without a partition on the node are counted and not stored.
    """
    begin = position
    rows = 0 if position else count_ignored(node_id, ignored_sessions(node_id, reported))
    while position < len(reported):
        for written in apply_slice(node_id, reported[position : position + SLICE], shares):
            position, rows = position + 1, rows + written
            if rows >= MAX_ROWS:
                return Progress(rows, position - begin, position, True)
        if position - begin >= MAX_COMPARED and position < len(reported):
            return Progress(rows, position - begin, position, True)
    for session in missing_sessions(node_id, reported):
        if rows >= MAX_ROWS:
            return Progress(rows, position - begin, position, True)
        rows += sessions.close_session(session, sessions.NOT_REPORTED)
    if reported:
        sample_partitions(node_id, reported, shares)
    return Progress(rows, position - begin, position, False)


def apply_slice(
    node_id: UUID, reported: Sequence[fleet_pb2.Session], shares: Shares
) -> Iterator[int]:
    """Apply some sessions of a report and yield the number of written rows after each."""
    by_id = {UUID(bytes=r.id): r for r in reported}
    open_sessions = {s.pk: s for s in OPEN_SESSIONS.objects(ids=padded(by_id), node_id=node_id)}
    new = new_sessions({i: r for i, r in by_id.items() if i not in open_sessions}, node_id)
    for session_id, report in by_id.items():
        received = shares.get(report.allocation_id, ())
        if session := open_sessions.get(session_id):
            yield sessions.apply_session_report(session, report, received)
        elif session_id in new:
            session = sessions.open_session(node_id, report)
            yield sessions.CHANGE_ROWS + sessions.apply_session_report(session, report, received)
        else:
            yield 0


def new_sessions(unknown: Mapping[UUID, fleet_pb2.Session], node_id: UUID) -> set[UUID]:
    """Return the ids of the sessions of the node's allocations that have no row."""
    if not unknown:
        return set()
    ours = granted_allocations(node_id)
    ids = {i for i, report in unknown.items() if report.allocation_id in ours}
    return ids - stored_sessions(ids)


def granted_allocations(node_id: UUID) -> set[bytes]:
    return {allocation_id.bytes for allocation_id, _ in GRANTED.rows(node_id=node_id)}


def stored_sessions(ids: Collection[UUID]) -> set[UUID]:
    """Return the ids that have a row: the session is closed, or of another node."""
    return {pk for (pk,) in STORED_IDS.rows(ids=padded(ids))} if ids else set()


def ignored_sessions(node_id: UUID, reported: Iterable[fleet_pb2.Session]) -> frozenset[UUID]:
    """Return the ids of the sessions that have no row and are of no allocation of the node."""
    ours = granted_allocations(node_id)
    foreign = frozenset(UUID(bytes=r.id) for r in reported if r.allocation_id not in ours)
    return foreign - stored_sessions(foreign - _ignored.get(node_id, frozenset()))


def missing_sessions(node_id: UUID, reported: Iterable[fleet_pb2.Session]) -> Iterator[Session]:
    """Yield the open sessions of a node that it does not report."""
    ids = {r.id for r in reported}
    missing = [pk for (pk,) in OPEN_IDS.rows(node_id=node_id) if pk.bytes not in ids]
    for begin in range(0, len(missing), CLOSED_TOGETHER):
        chunk = missing[begin : begin + CLOSED_TOGETHER]
        yield from OPEN_SESSIONS.objects(ids=padded(chunk), node_id=node_id)


def count_ignored(node_id: UUID, ignored: frozenset[UUID]) -> int:
    """Count the ignored sessions that the previous report did not name. Return the rows."""
    if first := ignored - _ignored.get(node_id, frozenset()):
        rows = Node.objects.filter(pk=node_id)
        rows.update(ignored_sessions=F("ignored_sessions") + len(first))
    if ignored != _ignored.get(node_id, frozenset()):
        transaction.on_commit(partial(remember_ignored, node_id, ignored))
    return int(bool(first))


def remember_ignored(node_id: UUID, ignored: frozenset[UUID]) -> None:
    """Remember what has been counted. A transaction that is rolled back has counted nothing."""
    if ignored:
        _ignored[node_id] = ignored
    else:
        _ignored.pop(node_id, None)


def sample_partitions(node_id: UUID, reported: Iterable[fleet_pb2.Session], shares: Shares) -> None:
    """Record memory use, open sessions and received share of each partition on the node."""
    by_allocation: dict[bytes, list[fleet_pb2.Session]] = {}
    for report in reported:
        by_allocation.setdefault(report.allocation_id, []).append(report)
    samples: dict[UUID, list[float]] = {}
    position: Counter[UUID] = Counter()
    for allocation_id, partition_id in GRANTED.rows(node_id=node_id):
        here = by_allocation.get(allocation_id.bytes, [])
        index, position[allocation_id] = position[allocation_id], position[allocation_id] + 1
        used = sum(r.partition_bytes[index] for r in here if index < len(r.partition_bytes))
        open_sessions = sum(r.state != SessionState.CLOSED for r in here)
        received = shares.get(allocation_id.bytes, ()) if here else ()
        percent = received[index] if index < len(received) else math.nan
        samples[partition_id] = [float(used), float(open_sessions), percent]
    series.record(PARTITION_METRICS, samples, time.time())
