"""Comparison of the GPU time that NVML measures of sessions with the turns that they had.

A session server that a tenant has taken over can give the driver work without a turn. NVML says for
each process in how much of the time its work ran. In turns that is no more than the share of the
GPU that the allocation received, because it pays from each grant until all work has ended.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodes.launcher_control import Grant, SessionList, SessionReport
from nodes.launcher_layouts import UNKNOWN_SHARE

COMPARISONS = 120
"""At five seconds each, ten minutes. Work of some seconds with pauses needs as many: each sample
shows all or nothing of it."""
TOLERANCE_PERCENT = 20
"""Of the GPU: four times the standard error of the mean of such samples."""
IN_TURNS = frozenset({"turns", "coarse", "sliced"})
BYPASSED = "bypassed"

ProcessUse = Mapping[uuid.UUID, Mapping[int, float]]
"""Percent of the time in which work ran, by GPU and process. A GPU without figures is left out."""
Place = tuple[uuid.UUID, uuid.UUID]
"""An allocation and a GPU."""


@dataclass
class TurnWatch:
    _samples: dict[Place, deque[float]] = field(default_factory=dict)
    """By how much more than it received an allocation used a GPU, the oldest first. All of them
    are of a time in turns: what an allocation uses alone is in no share."""

    def observe(self, listed: SessionList) -> None:
        """Forget the allocations that are not in turns now."""
        running = running_sessions(listed)
        self._samples = {
            place: of_place for place, of_place in self._samples.items() if place[0] in running
        }

    def compare(
        self, used: ProcessUse, listed: SessionList, grants: Sequence[Grant]
    ) -> frozenset[uuid.UUID]:
        """Return the sessions of allocations that used more of a GPU than they had turns for."""
        running, gpus = running_sessions(listed), {g.allocation_id: g.partitions for g in grants}
        samples: dict[Place, deque[float]] = {}
        found: set[uuid.UUID] = set()
        for share in listed.shares:
            allocation = uuid.UUID(bytes=share.allocation)
            sessions = running.get(allocation, ())
            for p, received in zip(gpus.get(allocation, ()), share.received, strict=False):
                if not sessions or received == UNKNOWN_SHARE or p.gpu_uuid not in used:
                    continue
                place = allocation, p.gpu_uuid
                of_place = samples[place] = self._samples.get(place, deque(maxlen=COMPARISONS))
                of_processes = (used[p.gpu_uuid].get(s.pid, 0.0) for s in sessions)
                of_place.append(sum(of_processes) - received / 100)
                if len(of_place) == COMPARISONS and sum(of_place) > COMPARISONS * TOLERANCE_PERCENT:
                    found.update(s.session_id for s in sessions)
        self._samples = samples
        return frozenset(found)


def running_sessions(listed: SessionList) -> dict[uuid.UUID, list[SessionReport]]:
    """Return the running sessions of each allocation all of whose sessions are in turns."""
    running: dict[uuid.UUID, list[SessionReport]] = {}
    for s in listed.sessions:
        if s.state == "running":
            running.setdefault(s.allocation_id, []).append(s)
    return {
        allocation: sessions
        for allocation, sessions in running.items()
        if all(s.enforcement in IN_TURNS for s in sessions)
    }


def with_bypasses(listed: SessionList, found: frozenset[uuid.UUID]) -> SessionList:
    """Return the sessions with those that use a GPU without turns marked as such."""
    sessions = (
        replace(s, enforcement=BYPASSED) if s.session_id in found else s for s in listed.sessions
    )
    return replace(listed, sessions=tuple(sessions))
