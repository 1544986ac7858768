"""Adoption of running sessions by a restarted launcher."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.supervisor import BUILD, wait_for
from nodes.launcher_control import SessionReport
from tests.remoting.node import EVENT_SECONDS, LocalNode

PF_EXITING = 4
"""Flag of the kernel, in the ninth field of /proc/PID/stat."""


@pytest.fixture
def restartable_node() -> Iterator[LocalNode]:
    node = LocalNode()
    yield node
    node.stop()


def start_working(node: LocalNode) -> subprocess.Popen[str]:
    """Start a program that works until finish()."""
    command = [str(BUILD / "demo" / "gpu_demo"), "work", "1000"]
    process = subprocess.Popen(
        command,
        env=node.remote_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    return process


def finish(program: subprocess.Popen[str]) -> None:
    """Ask the program to end, and check that all its results were correct."""
    program.terminate()
    out, err = program.communicate(timeout=EVENT_SECONDS)
    assert program.returncode == 0 and "correct after" in out, err


def assert_released(program: subprocess.Popen[str]) -> None:
    _, err = program.communicate(timeout=EVENT_SECONDS)
    assert program.returncode != 0 and "its allocation was released" in err


def running(node: LocalNode) -> list[SessionReport]:
    return [s for s in node.sessions() if s.state == "running"]


def test_restarted_launcher_adopts_session_and_process(restartable_node: LocalNode) -> None:
    program = start_working(restartable_node)
    before = running(restartable_node)[0]
    restartable_node.restart()
    after = running(restartable_node)[0]
    assert (after.session_id, after.pid) == (before.session_id, before.pid)
    finish(program)
    log = restartable_node.folder / "launcher.log"
    wait_for("the end in the launcher's list", lambda: not running(restartable_node), log)


def test_missing_adoption_is_detected(restartable_node: LocalNode) -> None:
    """Planted fault: without adoption the session is not listed, so the test above would fail."""
    program = start_working(restartable_node)
    restartable_node.restart(BUSBAR_FAILPOINT_NO_ADOPTION="1")
    assert running(restartable_node) == []
    finish(program)


def test_adopted_session_ends_with_its_grant(restartable_node: LocalNode) -> None:
    program = start_working(restartable_node)
    restartable_node.restart()
    restartable_node.grant(granted=False)
    assert_released(program)


@contextmanager
def held_in_exit(session: SessionReport) -> Iterator[None]:
    """Keep the process of a session from ending; it may exit.

    The first process of a PID namespace ends after all others. A parent that is stopped does not
    collect the other one.
    """
    enter = ["nsenter", "--pid", f"--target={session.pid}"]
    inside = ["sh", "-c", "echo started; exec sleep infinity"]
    with subprocess.Popen([*enter, *inside], stdout=subprocess.PIPE, text=True) as parent:
        try:
            assert parent.stdout is not None and parent.stdout.readline() == "started\n"
            parent.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, parent.pid, os.WSTOPPED)
            yield
        finally:
            parent.send_signal(signal.SIGCONT)


def is_exiting(session: SessionReport) -> bool:
    """Return whether all threads have the flag PF_EXITING."""
    stats = [task.read_text() for task in Path(f"/proc/{session.pid}/task").glob("*/stat")]
    return all(int(stat.rpartition(")")[2].split()[6]) & PF_EXITING for stat in stats)


@pytest.mark.skipif(os.getuid() != 0, reason="only root enters the namespace of a session")
def test_session_that_exits_during_the_restart_keeps_its_reason(
    restartable_node: LocalNode,
) -> None:
    program = start_working(restartable_node)
    (session,) = running(restartable_node)
    log = restartable_node.folder / "launcher.log"
    with held_in_exit(session):
        restartable_node.grant(granted=False)
        assert_released(program)
        wait_for("the exit", lambda: is_exiting(session), log, EVENT_SECONDS)
        restartable_node.restart()
        assert [s.pid for s in running(restartable_node)] == [session.pid]

    def ended() -> list[str]:
        return [s.reason for s in restartable_node.sessions() if s.state == "closed"]

    wait_for("the end", lambda: bool(ended()), log, EVENT_SECONDS)
    assert ended() == ["its allocation was released"]


def test_higher_fence_ends_older_sessions(restartable_node: LocalNode) -> None:
    program = start_working(restartable_node)
    restartable_node.grant(fence=(1, 6))
    assert program.wait(EVENT_SECONDS) != 0


def test_dead_session_is_not_adopted(restartable_node: LocalNode) -> None:
    program = start_working(restartable_node)
    session = running(restartable_node)[0]
    restartable_node.launcher.kill()
    restartable_node.launcher.wait()
    os.kill(session.pid, signal.SIGKILL)
    assert program.wait(EVENT_SECONDS) != 0
    restartable_node.launcher = restartable_node._start()

    def states() -> list[str]:
        sessions = restartable_node.sessions()
        return [s.state for s in sessions if s.session_id == session.session_id]

    log = restartable_node.folder / "launcher.log"
    wait_for("the end", lambda: states() == ["closed"], log)
    assert running(restartable_node) == []


def restart_with_grants_of_an_hour_ago(node: LocalNode, boot_id: bytes) -> None:
    """Restart the launcher with grants on disk that are an hour old and have this boot id."""
    hour = 3600
    node.control.apply(replace(node.grants(), appliance_seconds=int(time.time()) - hour))
    node.launcher.kill()
    node.launcher.wait()
    saved = node.runtime / "grants"
    head = struct.Struct("<40sq")  # boot id, seconds of CLOCK_BOOTTIME
    _, received = head.unpack_from(saved.read_bytes())
    saved.write_bytes(head.pack(boot_id, received - hour) + saved.read_bytes()[head.size :])
    node.launcher = node._start()


def test_restarted_launcher_continues_appliance_clock(restartable_node: LocalNode) -> None:
    restart_with_grants_of_an_hour_ago(
        restartable_node, Path("/proc/sys/kernel/random/boot_id").read_bytes()
    )
    finish(start_working(restartable_node))


def test_clock_stops_after_reboot_until_agent_connects(restartable_node: LocalNode) -> None:
    restart_with_grants_of_an_hour_ago(restartable_node, b"another")
    demo = [str(BUILD / "demo" / "gpu_demo"), "work", "1"]
    refused = subprocess.run(
        demo,
        check=False,
        env=restartable_node.remote_environment(),
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
    )
    assert (
        refused.returncode != 0
        and "the ticket has expired" in (restartable_node.folder / "launcher.log").read_text()
    )
    restartable_node.grant()
    finish(start_working(restartable_node))


def test_sessions_survive_a_restarted_spawner(restartable_node: LocalNode) -> None:
    program = start_working(restartable_node)
    before = running(restartable_node)[0]
    restartable_node.restart_spawner()
    finish(start_working(restartable_node))
    assert before.pid in [s.pid for s in running(restartable_node)]
    finish(program)


def test_sessions_survive_restarts_of_spawner_and_launcher(restartable_node: LocalNode) -> None:
    program = start_working(restartable_node)
    restartable_node.restart_spawner()
    restartable_node.restart()
    restartable_node.grant(granted=False)
    assert_released(program)


def test_node_without_a_spawner_opens_no_session(restartable_node: LocalNode) -> None:
    restartable_node.spawner.kill()
    restartable_node.spawner.wait()
    program = [str(BUILD / "demo" / "gpu_demo"), "work", "1"]
    done = subprocess.run(
        program,
        env=restartable_node.remote_environment(),
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
        check=False,
    )
    assert done.returncode != 0 and "cannot start a session server" in done.stderr
