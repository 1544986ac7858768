"""Suspensions of sessions, as the launcher reports them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from nodes import launcher_layouts as layouts
from nodes.protocol.limits import printable

MAX_REASON = 64


@dataclass(frozen=True)
class SuspensionReport:
    """A session that has a suspension, or had one that was abandoned for a `reason`.

    `host_bytes` of the node's host memory are kept for it.
    """

    session_id: uuid.UUID
    state: str
    host_bytes: int
    reason: str


@dataclass(frozen=True)
class SuspensionList:
    """The suspensions of this node, and its host memory for suspended sessions."""

    budget_bytes: int
    used_bytes: int
    sessions: tuple[SuspensionReport, ...]


def decode_suspensions(body: bytes) -> SuspensionList:
    """Return the suspensions in a response. Raises ValueError for a wrong length."""
    head_size, size = layouts.SuspensionList.SIZE, layouts.SuspensionRecord.SIZE
    if len(body) < head_size:
        raise ValueError(f"too short: {len(body)} bytes")
    head = layouts.SuspensionList.unpack(body[:head_size])
    if len(body) != head_size + head.count * size:
        raise ValueError(f"{len(body)} bytes for {head.count} sessions")
    records = (
        layouts.SuspensionRecord.unpack(body[at : at + size])
        for at in range(head_size, len(body), size)
    )
    return SuspensionList(head.budget_bytes, head.used_bytes, tuple(map(_report, records)))


def _report(record: layouts.SuspensionRecord) -> SuspensionReport:
    return SuspensionReport(
        uuid.UUID(bytes=record.id),
        layouts.Suspension(record.state).name.lower(),
        record.host_bytes,
        printable(record.reason.partition(b"\0")[0].decode(errors="replace"), MAX_REASON),
    )
