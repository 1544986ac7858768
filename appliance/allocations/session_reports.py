"""Reports of nodes about all their sessions, applied in short transactions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import F

from appliance.allocations import sessions
from appliance.allocations.models import Partition, Session, SessionState
from appliance.allocations.sessions import ReportedSession
from appliance.db.prepared import Select
from appliance.db.writer import write_transaction
from appliance.inventory.models import Node
from appliance.telemetry import series

MAX_ROWS = 64
"""Rows that one transaction writes, so that a large report does not delay other writes."""
OPEN_SESSIONS = Select(
    lambda node_id: Session.objects.filter(node_id=node_id).exclude(state=SessionState.CLOSED)
)
_ignored: dict[UUID, frozenset[UUID]] = {}
"""Sessions in each node's newest report that are of no allocation of the node."""


@write_transaction
def record_sessions(*, node_id: UUID, reported: Sequence[ReportedSession]) -> tuple[int, bool]:
    """Record all sessions of a node. Open sessions that are not in the report are closed.

    Sessions of allocations without a partition on the node are counted and not stored. Return the
    number of written rows, and whether another call must apply the rest.
    """
    rows = 0
    for written in apply_report(node_id, reported):
        rows += written
        if rows >= MAX_ROWS:
            return rows, True
    if reported:
        sample_partitions(node_id, reported)
    return rows, False


def apply_report(node_id: UUID, reported: Sequence[ReportedSession]) -> Iterator[int]:
    """Apply a report and yield the number of written rows after each step."""
    open_sessions = {s.pk: s for s in OPEN_SESSIONS.objects(node_id=node_id)}
    new, ignored = split_unknown(
        [r for r in reported if r.session_id not in open_sessions], node_id
    )
    yield count_ignored(node_id, ignored)
    for report in reported:
        if session := open_sessions.pop(report.session_id, None):
            yield sessions.apply_session_report(session, report)
    for report in new:
        session = sessions.open_session(node_id, report)
        yield sessions.CHANGE_ROWS + sessions.apply_session_report(session, report)
    for missing in open_sessions.values():
        yield sessions.close_session(missing, "the node no longer reports it")


def split_unknown(
    unknown: Sequence[ReportedSession], node_id: UUID
) -> tuple[list[ReportedSession], frozenset[UUID]]:
    """Return the new sessions of the node's allocations, and the ids of other nodes' sessions.

    Sessions that have a row are neither: they are closed, or of another node.
    """
    if not unknown:
        return [], frozenset()
    ours = set(
        Partition.objects.filter(gpu__node_id=node_id).values_list("allocation_id", flat=True)
    )
    stored = set(
        Session.objects.filter(pk__in=[r.session_id for r in unknown]).values_list("pk", flat=True)
    )
    without_row = [r for r in unknown if r.session_id not in stored]
    new = [r for r in without_row if r.allocation_id in ours]
    return new, frozenset(r.session_id for r in without_row if r.allocation_id not in ours)


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


def sample_partitions(node_id: UUID, reported: Iterable[ReportedSession]) -> None:
    """Record memory use and number of open sessions of each partition on the node."""
    by_allocation: dict[UUID, list[ReportedSession]] = {}
    for report in reported:
        by_allocation.setdefault(report.allocation_id, []).append(report)
    samples: dict[UUID, list[float]] = {}
    position: Counter[UUID] = Counter()
    for partition_id, allocation_id in (
        Partition.objects.filter(gpu__node_id=node_id)
        .order_by("position")
        .values_list("pk", "allocation_id")
    ):
        here = by_allocation.get(allocation_id, [])
        index, position[allocation_id] = position[allocation_id], position[allocation_id] + 1
        used = sum(r.partition_bytes[index] for r in here if index < len(r.partition_bytes))
        open_sessions = sum(r.state != SessionState.CLOSED for r in here)
        samples[partition_id] = [float(used), float(open_sessions)]
    series.record(("memory_bytes", "sessions"), samples, time.time())
