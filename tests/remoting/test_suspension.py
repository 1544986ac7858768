"""Suspension of sessions: contents, books, refusals, and processes killed at each step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from deploy.supervisor import ROOT, wait_for
from nodes.launcher_control import LauncherClosedError, Partition, SuspensionRefusedError
from nodes.suspensions import SuspensionReport
from tests.planted_program import planted_program
from tests.remoting.modes import MODES
from tests.remoting.node import LocalNode, gpu_memory_bytes
from tests.remoting.suspended_contents import contents, digest

MIB = 1 << 20
LIMIT = 128 * MIB
BLOCK = 32 * MIB
PROGRAM = [sys.executable, "-m", "tests.remoting.suspending_program"]
MOVED = (
    "cuMemAlloc",
    "cuMemAllocAsync",
    "cuMemAllocManaged",
    "cuMemCreate",
    "cuMemCreate_released",
)
"""Kinds of memory that a suspension moves."""
SECONDS = 120
WAIT_SECONDS = 60.0
SHORT_WAIT_SECONDS = 0.2
STEPS_OF_SESSION = ("drained", "saved", "released", "confirmed", "charged", "restored")
OPERATIONS = {"suspended": 5, "resume": 6, "resumed": 7}
"""Of the ledger, control/ledger_messages.h."""


class Program:
    """A running `suspending_program`."""

    def __init__(self, node: LocalNode, **environment: str) -> None:
        self.process = subprocess.Popen(
            PROGRAM,
            env=node.remote_environment(**environment),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def post(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def tell(self, line: str) -> str:
        self.post(line)
        return self.line()

    def allocate(self, kind: str, count: int, seed: int) -> str:
        return self.tell(f"allocate {kind} {count} {seed}").removeprefix("ok ")


@contextmanager
def program(node: LocalNode, **environment: str) -> Iterator[Program]:
    running = Program(node, **environment)
    try:
        yield running
    finally:
        running.process.kill()
        with running.process:
            pass


def limited(node: LocalNode) -> LocalNode:
    node.partitions = (Partition(node.gpus[0], LIMIT, 50),)
    node.grant()
    return node


@pytest.fixture
def node() -> Iterator[LocalNode]:
    found = limited(LocalNode())
    yield found
    found.stop()


def session_ids(node: LocalNode) -> list[UUID]:
    return [s.session_id for s in node.sessions() if s.state == "running"]


def charged_bytes(node: LocalNode) -> int:
    return sum(sum(s.partition_bytes) for s in node.sessions() if s.state == "running")


def driver_bytes(node: LocalNode) -> int:
    return sum(gpu_memory_bytes(node.env))


def await_equal_books(node: LocalNode) -> int:
    log = node.folder / "launcher.log"
    wait_for("equal books", lambda: charged_bytes(node) == driver_bytes(node), log, SECONDS)
    return charged_bytes(node)


def suspension_of(node: LocalNode, session: UUID) -> SuspensionReport | None:
    reports = node.control.suspensions().sessions
    return next((r for r in reports if r.session_id == session), None)


def state_of(node: LocalNode, session: UUID) -> str:
    report = suspension_of(node, session)
    return report.state if report else "none"


def await_state(node: LocalNode, session: UUID, *states: str) -> None:
    log = node.folder / "launcher.log"
    wait_for(f"state {states}", lambda: state_of(node, session) in states, log, SECONDS)


def suspend(node: LocalNode) -> UUID:
    """Suspend the only session and wait until it is suspended."""
    (session,) = session_ids(node)
    node.control.suspend(session, WAIT_SECONDS)
    await_state(node, session, "suspended")
    return session


@pytest.mark.parametrize("mode", ["shared memory", "TLS"])
def test_suspended_memory_is_free_and_is_bit_equal_at_its_addresses_again(
    node: LocalNode, mode: str
) -> None:
    with program(node, **MODES[mode]) as p:
        numbers = [p.allocate(kind, 6 * MIB, seed) for seed, kind in enumerate(MOVED, 1)]
        before = [p.tell(f"digest {n}") for n in numbers]
        for answer, seed in zip(before, range(1, len(MOVED) + 1), strict=True):
            assert answer.split()[0] == digest(contents(6 * MIB, seed))
        charged = await_equal_books(node)
        assert charged >= len(MOVED) * 6 * MIB
        session = suspend(node)
        assert await_equal_books(node) == 0
        report = suspension_of(node, session)
        assert report is not None and report.host_bytes == charged
        assert node.control.suspensions().used_bytes == charged
        assert [p.tell(f"digest {n}") for n in numbers] == before
        await_state(node, session, "none")
        assert await_equal_books(node) == charged
        assert node.control.suspensions().used_bytes == 0
        assert {p.tell(f"release {n}") for n in numbers} == {"ok"}
        assert await_equal_books(node) < charged


def test_graph_and_module_work_after_a_suspension(node: LocalNode) -> None:
    with program(node) as p:
        source, target = (p.allocate("cuMemAlloc", 3 * MIB, seed) for seed in (7, 0))
        variable = p.allocate("cuModuleLoadData", 1 * MIB, 9)
        assert p.tell(f"capture {source} {target}") == "ok"
        suspend(node)
        assert 0 < await_equal_books(node) < 2 * MIB  # the variable stays
        assert p.tell("launch") == "ok"
        assert p.tell(f"digest {target}").split()[0] == digest(contents(3 * MIB, 7))
        assert p.tell(f"digest {variable}").split()[0] == digest(contents(1 * MIB, 9))


def test_lost_page_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "planted"
    folder.mkdir()
    session_program = planted_program(
        folder, "busbar-session", "server/page_copies.cc", "BUSBAR_PLANTED_LOST_PAGE"
    )
    node = limited(LocalNode(session_program=session_program))
    try:
        with program(node) as p:
            number = p.allocate("cuMemAlloc", 6 * MIB, 1)
            before = p.tell(f"digest {number}")
            suspend(node)
            assert p.tell(f"digest {number}") != before
    finally:
        node.stop()


def test_freed_memory_is_used_by_another_session_until_it_is_free_again(node: LocalNode) -> None:
    with program(node) as first:
        numbers = [first.allocate("cuMemAlloc", BLOCK, seed) for seed in (1, 2, 3)]
        before = [first.tell(f"digest {n}") for n in numbers]
        session = suspend(node)
        with program(node) as second:
            taken = [second.allocate("cuMemAlloc", BLOCK, seed) for seed in (4, 5, 6)]
            assert "error" not in " ".join(taken)
            first.post(f"digest {numbers[0]}")
            await_state(node, session, "waiting")
            for number in taken:
                assert second.tell(f"release {number}") == "ok"
            second.tell("synchronize")
        assert first.line() == before[0]
        assert [first.tell(f"digest {n}") for n in numbers[1:]] == before[1:]
        await_equal_books(node)


def test_suspended_session_is_resumed_by_hand_and_stays_suspended_without(node: LocalNode) -> None:
    with program(node) as p:
        p.allocate("cuMemAlloc", BLOCK, 1)
        session = suspend(node)
        node.restart()
        assert state_of(node, session) == "suspended"
        node.control.resume(session)
        await_state(node, session, "none")
        assert await_equal_books(node) >= BLOCK
        with pytest.raises(SuspensionRefusedError, match="not suspended"):
            node.control.resume(session)


def test_shrink_below_what_another_session_holds_resumes_nothing(node: LocalNode) -> None:
    with program(node) as first:
        number = first.allocate("cuMemAlloc", BLOCK, 1)
        before = first.tell(f"digest {number}")
        session = suspend(node)
        with program(node) as second:
            taken = [second.allocate("cuMemAlloc", BLOCK, seed) for seed in (2, 3, 4)]
            node.partitions = (Partition(node.gpus[0], BLOCK, 50),)
            node.grant()
            log = node.folder / "launcher.log"
            wait_for("the shrink", lambda: bool(node.control.sessions().over), log, SECONDS)
            for block in taken:
                assert second.tell(f"release {block}") == "ok"
            second.tell("synchronize")
            assert state_of(node, session) == "suspended"
        limited(node)
        assert first.tell(f"digest {number}") == before


def test_program_that_ends_while_it_is_suspended_leaves_nothing(node: LocalNode) -> None:
    with program(node) as p:
        p.allocate("cuMemAlloc", BLOCK, 1)
        suspend(node)
    log = node.folder / "launcher.log"
    wait_for("the end", lambda: not session_ids(node), log, SECONDS)
    assert node.control.suspensions().used_bytes == 0
    assert await_equal_books(node) == 0


@pytest.mark.parametrize(
    ("work", "end", "reason"),
    [
        ("begin", "end", "captured"),
        ("host", "synchronize", "host function"),
        ("block 2", "unblock 2", "work of the GPU"),
    ],
)
def test_suspension_of_a_session_with_work_is_abandoned_with_the_reason(
    node: LocalNode, work: str, end: str, reason: str
) -> None:
    with program(node) as p:
        number, _word = (p.allocate("cuMemAlloc", 4 * MIB, seed) for seed in (1, 0))
        before = p.tell(f"digest {number}")
        assert p.tell(work) == "ok"
        (session,) = session_ids(node)
        node.control.suspend(session, SHORT_WAIT_SECONDS)
        await_state(node, session, "none")
        report = suspension_of(node, session)
        assert report is not None and reason in report.reason
        assert node.control.suspensions().used_bytes == 0
        assert p.tell(end) == "ok"
        assert p.tell(f"digest {number}") == before
        suspend(node)
        assert p.tell(f"digest {number}") == before


def test_session_is_suspended_before_all_of_its_submitted_work_has_run(node: LocalNode) -> None:
    """It has minutes of work, of which the GPU has a part."""
    with program(node) as p:
        source, target = (p.allocate("cuMemAlloc", BLOCK, seed) for seed in (7, 0))
        assert p.tell(f"capture {source} {target}") == "ok"
        assert p.tell("launches 40000") == "ok"
        (session,) = session_ids(node)
        node.control.suspend(session, WAIT_SECONDS)
        await_state(node, session, "none")
        assert suspension_of(node, session) is None  # an abandoned one has a reason
        assert p.tell(f"digest {target}").split()[0] == digest(contents(BLOCK, 7))


def test_session_that_allocates_before_it_is_idle_is_not_suspended(node: LocalNode) -> None:
    """It would save more than the host memory that it is charged for."""
    with program(node) as p:
        numbers = [p.allocate("cuMemAlloc", 4 * MIB, 1), p.allocate("cuMemAlloc", 4 * MIB, 0)]
        before = p.tell(f"digest {numbers[0]}")
        assert p.tell("block 2") == "ok"
        (session,) = session_ids(node)
        node.control.suspend(session, WAIT_SECONDS)
        assert state_of(node, session) == "suspending"
        grown = p.allocate("cuMemAlloc", 60 * MIB, 3)  # more than its lease has left
        await_state(node, session, "none")
        report = suspension_of(node, session)
        assert report is not None and "allocated memory meanwhile" in report.reason
        assert node.control.suspensions().used_bytes == 0
        assert p.tell("unblock 2") == "ok"
        assert p.tell(f"digest {numbers[0]}") == before
        assert p.tell(f"digest {grown}").split()[0] == digest(contents(60 * MIB, 3))
        suspend(node)
        assert p.tell(f"digest {numbers[0]}") == before


def test_full_host_budget_refuses_a_suspension(node: LocalNode) -> None:
    node.restart_with("--suspended-bytes", str(BLOCK))
    with program(node) as p:
        number = p.allocate("cuMemAlloc", 2 * BLOCK, 1)
        (session,) = session_ids(node)
        with pytest.raises(SuspensionRefusedError, match="host memory for suspended sessions"):
            node.control.suspend(session, WAIT_SECONDS)
        assert state_of(node, session) == "none"
        assert "error" not in p.tell(f"digest {number}")


def test_second_suspension_and_unknown_sessions_are_refused(node: LocalNode) -> None:
    with pytest.raises(SuspensionRefusedError, match="no such session"):
        node.control.suspend(UUID(int=7), WAIT_SECONDS)
    with program(node) as p:
        p.allocate("cuMemAlloc", 4 * MIB, 1)
        session = suspend(node)
        with pytest.raises(SuspensionRefusedError, match="has begun"):
            node.control.suspend(session, WAIT_SECONDS)


@pytest.mark.parametrize("step", STEPS_OF_SESSION)
def test_session_killed_at_a_step_leaves_equal_books(step: str) -> None:
    node = limited(LocalNode(BUSBAR_FAILPOINT_SUSPENSION=step))
    try:
        with program(node) as p:
            number = p.allocate("cuMemAlloc", BLOCK, 1)
            (session,) = node.sessions()
            node.control.suspend(session.session_id, WAIT_SECONDS)
            if step in ("charged", "restored"):
                await_state(node, session.session_id, "suspended")
                p.post(f"digest {number}")
            await_stop_at(node, session.session_id, step)
            subprocess.run(["kill", "-KILL", str(session.pid)], check=True)
            log = node.folder / "launcher.log"
            wait_for("the end", lambda: not session_ids(node), log, SECONDS)
            assert node.control.suspensions().used_bytes == 0
            assert await_equal_books(node) == 0
    finally:
        node.stop()


def await_stop_at(node: LocalNode, session: UUID, step: str) -> None:
    states = {
        "drained": "suspending",
        "saved": "suspending",
        "released": "suspending",
        "confirmed": "suspended",
        "charged": "restoring",
        "restored": "restoring",
    }
    await_state(node, session, states[step])
    held = 0 if step in ("released", "confirmed", "charged") else BLOCK
    log = node.folder / "launcher.log"
    wait_for(f"step {step}", lambda: driver_bytes(node) >= held, log, SECONDS)
    if not held and step != "charged":
        wait_for(f"step {step}", lambda: driver_bytes(node) == 0, log, SECONDS)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_launcher_killed_at_a_request_is_replaced_without_a_difference(
    node: LocalNode, when: str, operation: str
) -> None:
    with program(node) as p:
        number = p.allocate("cuMemAlloc", BLOCK, 1)
        before = p.tell(f"digest {number}")
        node.restart(BUSBAR_FAILPOINT_LEDGER=f"{when} {OPERATIONS[operation]}")
        (session,) = session_ids(node)
        await_connection(node, p)
        try:
            node.control.suspend(session, WAIT_SECONDS)
        except LauncherClosedError:
            # The session's report may kill the launcher before it has answered this request.
            assert operation == "suspended"
        if operation != "suspended":
            await_state(node, session, "suspended")
            p.post(f"digest {number}")
        node.launcher.wait(SECONDS)
        node.restart()
        if operation == "suspended":
            await_state(node, session, "suspended")
            assert await_equal_books(node) == 0
            p.post(f"digest {number}")
        assert p.line() == before
        await_state(node, session, "none")
        assert node.control.suspensions().used_bytes == 0
        assert await_equal_books(node) >= BLOCK


def await_connection(node: LocalNode, p: Program) -> None:
    """Wait until the session has its connection to the new launcher: a charge needs it."""
    number = p.allocate("cuMemAlloc", 1 * MIB, 0)
    assert p.tell(f"release {number}") == "ok"
