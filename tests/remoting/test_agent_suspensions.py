"""The agent's part of suspensions with a real launcher, session and program."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from deploy.supervisor import wait_for
from nodes.protocol import fleet_pb2
from nodes.suspending import Outcome, Suspender
from tests.remoting.node import LocalNode
from tests.remoting.suspended_contents import contents, digest
from tests.remoting.test_suspension import (
    BLOCK,
    SECONDS,
    Program,
    driver_bytes,
    limited,
    program,
    session_ids,
)


@pytest.fixture
def node() -> Iterator[LocalNode]:
    found = limited(LocalNode())
    yield found
    found.stop()


class Agent:
    """Reconciles the allocation of a node with what is desired, as the agent does each second."""

    def __init__(self, node: LocalNode, wait_seconds: int = 60) -> None:
        self.node, self.suspender = node, Suspender(node.control)
        self.wait_seconds = wait_seconds
        self.last: Outcome | None = None

    def restart(self) -> None:
        self.suspender = Suspender(self.node.control)

    def reconcile(self, suspension: str, revision: int) -> Outcome:
        listed = self.node.control.sessions()
        (allocation,) = {s.allocation_id for s in listed.sessions if s.state == "running"}
        grant = fleet_pb2.Grant(
            allocation_id=allocation.bytes,
            suspension=suspension,
            suspension_revision=revision,
            suspension_wait_seconds=self.wait_seconds,
        )
        (self.last,) = self.suspender.reconcile([grant], listed)
        return self.last

    def until(self, suspension: str, state: str, revision: int = 1) -> Outcome:
        def reached() -> bool:
            return self.reconcile(suspension, revision).state == state

        wait_for(f"{state}, not {self.last}", reached, self.node.folder / "launcher.log", SECONDS)
        assert self.last is not None
        return self.last


def filled(p: Program) -> Callable[[], bool]:
    """Fill a block, and return a function that compares its contents and address."""
    assert p.allocate("cuMemAlloc", BLOCK, 7) == "1"
    address = p.tell("digest 1").split()[1]
    return lambda: p.tell("digest 1") == f"{digest(contents(BLOCK, 7))} {address}"


def test_sessions_suspend_hold_and_resume_with_a_call(node: LocalNode) -> None:
    agent = Agent(node)
    with program(node) as p:
        is_equal = filled(p)
        before = driver_bytes(node)
        suspended = agent.until("suspend", "suspended")
        assert suspended.released_bytes >= BLOCK
        assert driver_bytes(node) == before - suspended.released_bytes
        agent.restart()
        assert agent.reconcile("suspend", 1).state == "suspended"
        assert agent.reconcile("hold", 1).state == "suspended"
        assert is_equal()
        agent.until("hold", "running")
        assert driver_bytes(node) == before


def test_sessions_resume_without_a_call(node: LocalNode) -> None:
    agent = Agent(node)
    with program(node) as p:
        is_equal = filled(p)
        before = driver_bytes(node)
        agent.until("suspend", "suspended")
        agent.restart()
        agent.until("resume", "running", revision=2)
        assert driver_bytes(node) == before and is_equal()


def test_session_with_work_fails_and_the_other_goes_on(node: LocalNode) -> None:
    agent = Agent(node, wait_seconds=1)
    with program(node) as p, program(node) as other:
        filled(p)  # it reads its memory to reach the node
        is_equal = filled(other)
        assert len(session_ids(node)) == 2
        assert p.tell("begin") == "ok"  # a capture
        failed = agent.until("suspend", "failed")
        assert "capture" in failed.reason
        agent.until("resume", "running", revision=2)
        assert p.tell("end") == "ok" and is_equal()
