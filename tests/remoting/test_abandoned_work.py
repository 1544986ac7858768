"""Sessions end soon after their programs, also if work of the GPU never ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from nodes.launcher_control import SessionReport
from nodes.protocol.session_ends import RELEASED
from tests.fleet.proxy import FaultyProxy
from tests.remoting.modes import MODES
from tests.remoting.node import EVENT_SECONDS, LocalNode, gpu_memory_bytes

WORKS = ("kernel", "full_queue", "graph", "host_function", "graph_host_function", "wait_value")
LAUNCHES_OF_A_FULL_QUEUE = 3
"""The queue of the software GPU holds 1,024 entries; there are 100 events behind each launch."""

CLOSED = "the client closed it"
GONE = "the client's connection ended without a close"
BUSY = "the client is gone, and the driver has not finished its work"

Programs = list[subprocess.Popen[str]]
Compiled = Callable[[str], Path]


@pytest.fixture
def node() -> Iterator[LocalNode]:
    local = LocalNode()
    yield local
    local.stop()


@contextmanager
def program(command: list[str | Path], env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def programs(node: LocalNode, compiled: Compiled, env: dict[str, str]) -> Iterator[Programs]:
    """Run a program for each work. All work is submitted."""
    with ExitStack() as running:
        started = {
            work: running.enter_context(program([compiled("endless"), work], env)) for work in WORKS
        }
        for process in started.values():
            assert process.stdout and process.stdout.readline() == "ready\n"

        def is_full() -> bool:
            pid = started["full_queue"].pid
            launches = [s.launches for s in node.sessions() if s.client_pid == pid]
            return launches[0] > LAUNCHES_OF_A_FULL_QUEUE

        wait_for("a full queue", is_full, node.folder / "launcher.log", EVENT_SECONDS)
        yield list(started.values())


def wait_until_free(node: LocalNode) -> dict[int, str]:
    """Block until no session is open and the memory of the GPU is free.

    Return the reason of each session's end, by the pid of its program.
    """

    def is_free() -> bool:
        are_closed = all(s.state == "closed" for s in node.sessions())
        return are_closed and not sum(gpu_memory_bytes(node.env))

    wait_for("the ends of all sessions", is_free, node.folder / "launcher.log", EVENT_SECONDS)
    return {s.client_pid: s.reason for s in node.sessions()}


def ends(running: Programs, reason: str, of_full_queue: str) -> dict[int, str]:
    """Return the expected reasons, by the pids of the programs."""
    reasons = {work: of_full_queue if work == "full_queue" else reason for work in WORKS}
    return {p.pid: reasons[work] for work, p in zip(WORKS, running, strict=True)}


@pytest.mark.parametrize("mode", ["shared memory", "TLS"])
def test_sessions_of_killed_programs_end(node: LocalNode, compiled: Compiled, mode: str) -> None:
    with programs(node, compiled, node.remote_environment(**MODES[mode])) as running:
        for process in running:
            process.kill()
        assert wait_until_free(node) == ends(running, GONE, BUSY)


@pytest.mark.parametrize("mode", ["shared memory", "TLS"])
def test_sessions_of_programs_that_exit_end(node: LocalNode, compiled: Compiled, mode: str) -> None:
    with programs(node, compiled, node.remote_environment(**MODES[mode])) as running:
        for process in running:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        assert [process.wait(EVENT_SECONDS) for process in running] == [0] * len(running)
        assert wait_until_free(node) == ends(running, CLOSED, BUSY)


@contextmanager
def paused(process: subprocess.Popen[bytes]) -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


@contextmanager
def session_that_ends(session: SessionReport) -> Iterator[None]:
    """Block at the end until the process of the session has ended."""
    pidfd = os.pidfd_open(session.pid)
    try:
        yield
        assert select.select([pidfd], [], [], EVENT_SECONDS)[0], "the process has not ended"
    finally:
        os.close(pidfd)


def test_reason_of_an_end_is_known_when_the_spawner_collects_the_process_late(
    node: LocalNode, compiled: Compiled
) -> None:
    with program([compiled("endless"), "kernel"], node.remote_environment()) as ending:
        assert ending.stdin and ending.stdout and ending.stdout.readline() == "ready\n"
        (session,) = node.sessions()
        with paused(node.spawner):
            with session_that_ends(session):
                ending.stdin.write("\n")
                ending.stdin.flush()
                assert ending.wait(EVENT_SECONDS) == 0
            node.grant()  # the launcher looks at all sessions
            assert [s.reason for s in node.sessions()] == [""]
        assert wait_until_free(node) == {ending.pid: CLOSED}


def test_session_that_was_told_to_end_is_closed_without_its_exit_status(
    node: LocalNode, compiled: Compiled
) -> None:
    """It has a reason, so that the launcher does not look for the status of its process again."""
    with program([compiled("endless"), "kernel"], node.remote_environment()) as ending:
        assert ending.stdout and ending.stdout.readline() == "ready\n"
        (session,) = node.sessions()
        with paused(node.spawner):
            with session_that_ends(session):
                node.grant(granted=False)
            node.grant(granted=False)  # the launcher looks at all sessions
            assert [(s.state, s.reason) for s in node.sessions()] == [("closed", RELEASED)]
        assert wait_until_free(node) == {ending.pid: RELEASED}


def test_sessions_without_a_connection_end(node: LocalNode, compiled: Compiled) -> None:
    env = node.remote_environment(**MODES["TLS"])
    ticket = Path(env["BUSBAR_TICKET_FILE"])
    with closing(FaultyProxy(node.port)) as proxy:
        direct, proxied = f"127.0.0.1 {node.port}", f"127.0.0.1 {proxy.port}"
        ticket.write_text(ticket.read_text().replace(direct, proxied))
        with programs(node, compiled, env) as running:
            proxy.cut()
            assert wait_until_free(node) == ends(running, GONE, BUSY)


def test_sessions_of_a_released_allocation_end(node: LocalNode, compiled: Compiled) -> None:
    with programs(node, compiled, node.remote_environment()) as running:
        node.grant(granted=False)
        assert wait_until_free(node) == ends(running, RELEASED, RELEASED)


@pytest.mark.parametrize("mode", ["shared memory", "TLS"])
def test_session_of_a_program_that_reads_nothing_ends(
    node: LocalNode, compiled: Compiled, mode: str
) -> None:
    env = node.remote_environment(**MODES[mode])
    with program([compiled("backpressure"), "reads_later", "20000"], env) as stopped:
        os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
        stopped.kill()
        assert wait_until_free(node) == {stopped.pid: GONE}
