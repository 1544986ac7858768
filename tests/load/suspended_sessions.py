"""Sessions of the kill rounds' nodes, which the agent's own code suspends and resumes.

Only the launcher is simulated: each allocation on a node has one session. They go on while the
appliance is unreachable, and sometimes a program has work that ends its suspension.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import cast

from nodes.launcher_control import (
    LauncherControl,
    SessionList,
    SessionReport,
    SuspensionRefusedError,
)
from nodes.messages import encode_report
from nodes.protocol import fleet_pb2
from nodes.suspending import BEGUN, Suspender
from nodes.suspensions import SuspensionList, SuspensionReport
from tests.load.held_memory import HeldMemory
from tests.session_reports import SESSION

MIB = 1 << 20
HELD_BYTES = 300 * MIB
WORK_SHARE = 0.1
"""Share of the suspensions that a program ends: half of them before they are complete."""
TICKS_UNTIL_CALL = 3


@dataclass
class FakeSession:
    """A session. `state` is that of its suspension, as the launcher names it."""

    id: uuid.UUID
    allocation_id: uuid.UUID
    state: str = "none"
    reason: str = ""
    has_work: bool = False
    """Its program ends the suspension that has begun."""
    ticks: int = 0
    """Ticks since the state changed."""
    has_ended_suspension: bool = False
    """Its program has ended a suspension, so it may run without a request of a client."""

    def enter(self, state: str, reason: str = "") -> None:
        self.state, self.reason, self.ticks = state, reason, 0

    def advance(self, rng: random.Random) -> None:
        """Let a tick pass."""
        self.ticks += 1
        if self.state == "suspending":
            if self.has_work and rng.random() < 0.5:
                self.has_ended_suspension = True
                self.enter("none", "its work did not end in time")
            else:
                self.enter("suspended")
        elif self.state == "restoring":
            self.enter("none")
        elif self.state == "suspended" and self.has_work and self.ticks >= TICKS_UNTIL_CALL:
            self.has_ended_suspension = True
            self.enter("restoring")


class FakeLauncher:
    """The part of `LauncherControl` that a `Suspender` uses."""

    def __init__(self, rng: random.Random, memory: HeldMemory) -> None:
        self._rng = rng
        self._memory = memory
        self._sessions: dict[uuid.UUID, FakeSession] = {}

    def suspend(self, session_id: uuid.UUID, _wait_seconds: float) -> None:
        session = self._sessions[session_id]
        if session.state != "none":
            raise SuspensionRefusedError(BEGUN)
        session.has_work = self._rng.random() < WORK_SHARE
        session.enter("suspending")

    def resume(self, session_id: uuid.UUID) -> None:
        session = self._sessions[session_id]
        if session.state != "suspended":
            raise SuspensionRefusedError("it is not suspended")
        session.enter("restoring")

    def advance(self) -> None:
        for session in self._sessions.values():
            session.advance(self._rng)

    def apply(self, allocation_ids: Collection[uuid.UUID]) -> None:
        """Open a session for each new allocation, and end those of others."""
        known = {s.allocation_id: s for s in self._sessions.values()}
        sessions = [known.get(i) or FakeSession(uuid.uuid4(), i) for i in allocation_ids]
        self._sessions = {s.id: s for s in sessions}

    def by_allocation(self) -> dict[str, FakeSession]:
        return {str(s.allocation_id): s for s in self._sessions.values()}

    def listed(self, generation: int) -> SessionList:
        held = {s.id: self._memory.of_allocation(s.allocation_id) for s in self._sessions.values()}
        sessions = tuple(report_of(s, held[s.id]) for s in self._sessions.values())
        found = tuple(
            SuspensionReport(s.id, s.state, HELD_BYTES, s.reason)
            for s in self._sessions.values()
            if s.state != "none" or s.reason
        )
        suspensions, over = SuspensionList(0, 0, found), self._memory.over()
        return SessionList(generation, 1, sessions, over=over, suspensions=suspensions)


def report_of(s: FakeSession, held: tuple[int, ...]) -> SessionReport:
    """Return a running session with the memory that it holds of each partition."""
    return replace(
        SESSION,
        session_id=s.id,
        allocation_id=s.allocation_id,
        memory_bytes=sum(held),
        partition_bytes=held,
    )


class SuspendedSessions:
    """The sessions of one node, their memory, and the suspensions that their grants desire."""

    def __init__(self, rng: random.Random) -> None:
        self.memory = HeldMemory(rng)
        self._launcher = FakeLauncher(rng, self.memory)
        self._suspender = Suspender(cast("LauncherControl", self._launcher))
        self._grants: Sequence[fleet_pb2.Grant] = ()
        self._reported = fleet_pb2.Report()

    def apply(self, grants: Sequence[fleet_pb2.Grant]) -> None:
        self._grants = grants
        self.memory.apply(grants)
        self._launcher.apply([uuid.UUID(bytes=g.allocation_id) for g in grants])

    def report(self, generation: int) -> fleet_pb2.Report:
        """Tell the sessions what is desired of them, and return the agent's report."""
        listed = self._launcher.listed(generation)
        outcomes = self._suspender.reconcile(self._grants, listed)
        self._reported = encode_report(listed, outcomes)
        return self._reported

    def advance(self, generation: int) -> fleet_pb2.Report | None:
        """Let a tick pass. Return the report if it differs from the last one."""
        self._launcher.advance()
        self.memory.advance()
        before = self._reported
        report = self.report(generation)
        return report if self._reported != before else None

    def by_allocation(self) -> dict[str, FakeSession]:
        return self._launcher.by_allocation()
