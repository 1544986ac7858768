"""The agent's part of suspensions: what it tells the launcher, and what it reports."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from nodes.launcher_control import (
    LauncherControl,
    LauncherError,
    SessionList,
    SessionReport,
    SuspensionRefusedError,
)
from nodes.messages import encode_report
from nodes.protocol import fleet_pb2
from nodes.suspending import Outcome, Suspender
from nodes.suspensions import SuspensionList, SuspensionReport
from tests.session_reports import SESSION

ALLOCATION, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
FIRST, SECOND = uuid.UUID(int=11), uuid.UUID(int=12)
MIB = 1 << 20


@dataclass
class Launcher:
    """Records what it is told. `refusal` is its answer, or it is unreachable."""

    told: list[tuple[str, uuid.UUID]] = field(default_factory=list)
    refusal: str = ""
    is_reachable: bool = True

    def suspend(self, session_id: uuid.UUID, wait_seconds: float) -> None:
        assert wait_seconds == 30
        self._decide("suspend", session_id)

    def resume(self, session_id: uuid.UUID) -> None:
        self._decide("resume", session_id)

    def _decide(self, action: str, session_id: uuid.UUID) -> None:
        if not self.is_reachable:
            raise LauncherError("unreachable")
        if self.refusal:
            raise SuspensionRefusedError(self.refusal)
        self.told.append((action, session_id))


def session(session_id: uuid.UUID, state: str = "running") -> SessionReport:
    return replace(
        SESSION,
        session_id=session_id,
        allocation_id=ALLOCATION,
        state=state,
        memory_bytes=4 * MIB,
        program="train",
    )


def listed(*states: str, reason: str = "", session_state: str = "running") -> SessionList:
    """Return the list of a launcher with a session in each state of a suspension."""
    ids = [FIRST, SECOND][: len(states)]
    found = tuple(
        SuspensionReport(i, state, 64 * MIB, reason)
        for i, state in zip(ids, states, strict=True)
        if state != "none" or reason
    )
    sessions = tuple(session(i, session_state) for i in ids)
    return SessionList(1, 8445, sessions, suspensions=SuspensionList(0, 0, found))


def grants(suspension: str, revision: int = 1) -> list[fleet_pb2.Grant]:
    return [
        fleet_pb2.Grant(allocation_id=OTHER.bytes),
        fleet_pb2.Grant(
            allocation_id=ALLOCATION.bytes,
            suspension=suspension,
            suspension_revision=revision,
            suspension_wait_seconds=30,
        ),
    ]


@pytest.fixture
def launcher() -> Launcher:
    return Launcher()


def suspender(launcher: Launcher) -> Suspender:
    return Suspender(cast("LauncherControl", launcher))


def outcome(s: Suspender, suspension: str, sessions: SessionList, revision: int = 1) -> Outcome:
    (found,) = s.reconcile(grants(suspension, revision), sessions)
    assert (found.allocation_id, found.revision) == (ALLOCATION, revision)
    return found


def test_each_session_is_told_once(launcher: Launcher) -> None:
    s = suspender(launcher)
    for states in (("none", "none"), ("suspending", "suspending"), ("suspended", "suspending")):
        assert outcome(s, "suspend", listed(*states)).state == "suspending"
    assert launcher.told == [("suspend", FIRST), ("suspend", SECOND)]
    done = outcome(s, "suspend", listed("suspended", "suspended"))
    assert (done.state, done.released_bytes) == ("suspended", 2 * 60 * MIB)
    outcome(s, "suspend", listed("none", "suspended"), revision=2)
    assert launcher.told[2:] == [("suspend", FIRST)], "another request tells again"


def test_agent_that_restarted_adopts_what_has_begun(launcher: Launcher) -> None:
    launcher.refusal = "its suspension has begun"
    s = suspender(launcher)
    assert outcome(s, "suspend", listed("none")).state == "suspending"
    assert outcome(s, "suspend", listed("suspended")).state == "suspended"


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "abandoned"])
def test_failure_has_program_and_reason(launcher: Launcher, is_refused: bool) -> None:
    s = suspender(launcher)
    if is_refused:
        launcher.refusal = "the host memory is full"
    else:
        outcome(s, "suspend", listed("none"))
    reason = "" if is_refused else "the host memory is full"
    failed = outcome(s, "suspend", listed("none", reason=reason))
    assert (failed.state, failed.reason) == ("failed", "train: the host memory is full")


def test_session_that_works_again_is_not_told_again(launcher: Launcher) -> None:
    s = suspender(launcher)
    for state in ("none", "suspended", "none"):
        found = outcome(s, "suspend", listed(state))
    assert found.state == "running" and launcher.told == [("suspend", FIRST)]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), "suspended"),
        (("suspended", "suspended"), "suspended"),
        (("suspended", "waiting"), "waiting"),
        (("suspended", "restoring"), "resuming"),
        (("suspended", "none"), "running"),
        (("waiting", "none"), "running"),
    ],
    ids=str,
)
def test_held_sessions_are_only_watched(
    launcher: Launcher, states: tuple[str, ...], expected: str
) -> None:
    assert outcome(suspender(launcher), "hold", listed(*states)).state == expected
    assert launcher.told == []


def test_session_that_opens_counts_as_running_when_held(launcher: Launcher) -> None:
    opening = listed("none", session_state="opening")
    assert outcome(suspender(launcher), "hold", opening).state == "running"
    assert outcome(suspender(launcher), "suspend", opening).state == "suspending"
    assert outcome(suspender(launcher), "hold", listed("none", session_state="closed")).state == (
        "suspended"
    )
    assert launcher.told == []


def test_resume_tells_the_suspended_until_none_is(launcher: Launcher) -> None:
    s = suspender(launcher)
    assert outcome(s, "resume", listed("suspended", "suspending")).state == "resuming"
    waiting = outcome(s, "resume", listed("restoring", "waiting"))
    assert waiting.state == "waiting" and waiting.reason
    assert outcome(s, "resume", listed("none", "none")).state == "running"
    assert launcher.told == [("resume", FIRST)]
    launcher.refusal = "the session is not suspended"  # a call came first
    assert outcome(s, "resume", listed("suspended")).state == "resuming"


def test_unreachable_launcher_is_told_later(launcher: Launcher) -> None:
    s = suspender(launcher)
    launcher.is_reachable = False
    with pytest.raises(LauncherError):
        s.reconcile(grants("suspend"), listed("none"))
    launcher.is_reachable = True
    outcome(s, "suspend", listed("none"))
    assert launcher.told == [("suspend", FIRST)]


def test_older_launcher_suspends_nothing(launcher: Launcher) -> None:
    older = replace(listed("none"), suspensions=None)
    assert suspender(launcher).reconcile(grants("suspend"), older) == ()
    assert launcher.told == []


def test_grants_without_a_suspension_are_not_reported(launcher: Launcher) -> None:
    assert suspender(launcher).reconcile(grants(""), listed("none", "suspended")) == ()
    assert launcher.told == []


def test_report_has_outcomes_and_states_of_sessions() -> None:
    long = Outcome(ALLOCATION, 3, "failed", 5, "a\nreason " * 50)
    report = encode_report(listed("suspended", "none"), [long])
    (found,) = report.suspensions
    assert (found.allocation_id, found.revision, found.state) == (ALLOCATION.bytes, 3, "failed")
    assert len(found.reason) == 200 and found.reason.isprintable()
    states = {s.id: s.state for s in report.sessions}
    assert states == {FIRST.bytes: "suspended", SECOND.bytes: "running"}
