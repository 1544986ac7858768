"""Unsupported CUDA calls are reported once by name to user and node, and return an error."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from deploy.supervisor import wait_for
from nodes.launcher_control import SessionReport
from tests.remoting.node import EVENT_SECONDS, LocalNode

NAME = "cuParamSetTexRef"


def test_refused_call_is_reported_once_and_program_continues(
    node: LocalNode, compiled: Callable[[str], Path]
) -> None:
    done = subprocess.run(
        [compiled("refused")],
        env=node.remote_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr.count(f"{NAME} is not supported") == 1
    assert (
        done.stdout.count(f"{NAME}(bump, 0, 0) -> 801") == 2
        and "cuCtxSynchronize() -> 0" in done.stdout
    )


def test_launcher_lists_refused_call_during_and_after_session(
    node: LocalNode, compiled: Callable[[str], Path]
) -> None:
    program = subprocess.Popen(
        [compiled("refused"), "1000"],
        env=node.remote_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def session_state() -> str:
        return next(
            (
                s.state
                for s in node.sessions()
                if s.client_pid == program.pid and s.refused_calls == (NAME,)
            ),
            "",
        )

    wait_for(
        "the name in the launcher's list",
        lambda: session_state() == "running",
        node.folder / "launcher.log",
    )
    program.kill()
    program.wait()
    wait_for(
        "the end of the session",
        lambda: session_state() == "closed",
        node.folder / "launcher.log",
    )


def test_refused_call_of_short_session_is_listed(
    node: LocalNode, compiled: Callable[[str], Path]
) -> None:
    program = subprocess.Popen(
        [compiled("refused")],
        env=node.remote_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert program.wait(EVENT_SECONDS) == 0

    def find_session() -> SessionReport | None:
        return next((s for s in node.sessions() if s.client_pid == program.pid), None)

    wait_for(
        "the end of the session",
        lambda: (s := find_session()) is not None and s.state == "closed",
        node.folder / "launcher.log",
    )
    session = find_session()
    assert session is not None and session.refused_calls == (NAME,)
