"""Suspension of allocations on this node: tells their sessions, and says what became of it. ADR 98.

The appliance states what it desires; what has happened is in the launcher. So the agent keeps
nothing that it needs after a restart, except which sessions it has told: a session is told twice.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from nodes.launcher_control import (
    LauncherControl,
    SessionList,
    SessionReport,
    SuspensionRefusedError,
)
from nodes.protocol import fleet_pb2
from nodes.suspensions import SuspensionReport

log = logging.getLogger("agent")

SUSPEND, HOLD, RESUME = "suspend", "hold", "resume"
"""States that the appliance desires."""
SUSPENDED = ("suspended", "waiting")
"""States of a session in the launcher in which its memory is released."""
BEGUN = "its suspension has begun"
"""Reason of the launcher, which an earlier agent or an administrator has told."""


@dataclass(frozen=True)
class Outcome:
    """Result of the desired suspension of an allocation. See fleet.proto."""

    allocation_id: uuid.UUID
    revision: int
    state: str
    released_bytes: int = 0
    reason: str = ""


class Suspender:
    """Brings the sessions of this node to the desired suspensions. Not thread-safe."""

    def __init__(self, launcher: LauncherControl) -> None:
        self._launcher = launcher
        self._told: dict[tuple[int, uuid.UUID], str] = {}
        """Sessions that were told to suspend, by revision, with the reason of a refusal."""

    def reconcile(
        self, grants: Sequence[fleet_pb2.Grant], listed: SessionList
    ) -> tuple[Outcome, ...]:
        """Tell the sessions what their grants desire. May raise LauncherError.

        `listed` are the sessions before that, so what becomes of them is in the next list.
        """
        desired = [g for g in grants if g.suspension]
        revisions = {g.suspension_revision for g in desired}
        self._told = {key: why for key, why in self._told.items() if key[0] in revisions}
        if not desired or listed.suspensions is None:
            return ()
        reports = {s.session_id: s for s in listed.suspensions.sessions}
        return tuple(self._reconcile(g, listed.sessions, reports) for g in desired)

    def _reconcile(
        self,
        grant: fleet_pb2.Grant,
        sessions: Sequence[SessionReport],
        reports: dict[uuid.UUID, SuspensionReport],
    ) -> Outcome:
        allocation_id = uuid.UUID(bytes=grant.allocation_id)
        own = [s for s in sessions if s.allocation_id == allocation_id and s.state != "closed"]
        found = [(s, reports.get(s.session_id)) for s in own]
        states = {report.state if report else "none" for _, report in found}
        released = sum(max(0, r.host_bytes - s.memory_bytes) for s, r in found
                       if r is not None and r.state in SUSPENDED)  # fmt: skip
        if grant.suspension == SUSPEND:
            state, reason = self._suspend(grant, found)
        elif grant.suspension == HOLD:
            state, reason = state_of_held(states), ""
        else:
            for s, report in found:
                if report is not None and report.state == "suspended":
                    self._resume(s)
            state, reason = ("resuming", "") if states - {"none"} else ("running", "")
        if "waiting" in states and state not in ("failed", "running"):
            state, reason = "waiting", "Other sessions of the allocation use its memory."
        return Outcome(allocation_id, grant.suspension_revision, state, released, reason)

    def _suspend(
        self,
        grant: fleet_pb2.Grant,
        found: Sequence[tuple[SessionReport, SuspensionReport | None]],
    ) -> tuple[str, str]:
        """Tell each session once. Returns the state of all, and the reason of a failure."""
        under_way = woken = False
        for s, report in found:
            key = (grant.suspension_revision, s.session_id)
            state = report.state if report else "none"
            if s.state == "opening":
                under_way = True
                continue
            if state == "none" and key not in self._told:
                self._tell(key, s, grant.suspension_wait_seconds)
                state = "suspending"
            if why := self._told.get(key) or (report.reason if report and state == "none" else ""):
                return "failed", f"{s.program}: {why}"
            under_way |= state in ("suspending", "restoring")
            woken |= state == "none"
        if woken:
            return "running", ""
        return ("suspending" if under_way else "suspended"), ""

    def _tell(self, key: tuple[int, uuid.UUID], s: SessionReport, wait_seconds: int) -> None:
        try:
            self._launcher.suspend(s.session_id, wait_seconds)
            self._told[key] = ""
        except SuspensionRefusedError as refusal:
            self._told[key] = "" if str(refusal) == BEGUN else str(refusal)
        log.info("agent: session %s: suspend: %s", s.session_id, self._told[key] or "told")

    def _resume(self, s: SessionReport) -> None:
        try:
            self._launcher.resume(s.session_id)
            log.info("agent: session %s: resume: told", s.session_id)
        except SuspensionRefusedError as refusal:  # a call came first, or it has ended
            log.info("agent: session %s: resume: %s", s.session_id, refusal)


def state_of_held(states: set[str]) -> str:
    """Return the state of an allocation whose sessions were suspended.

    A session without a suspension was resumed by a call, or is new.
    """
    if "none" in states:
        return "running"
    return "resuming" if states & {"restoring", "suspending"} else "suspended"
