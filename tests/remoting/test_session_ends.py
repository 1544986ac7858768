"""The reasons of the ends of sessions, as the launcher reports them (control/session_ends.h)."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from nodes.protocol.session_ends import RELEASED
from tests.remoting.hostile_client import open_session
from tests.remoting.modes import MODES
from tests.remoting.node import EVENT_SECONDS, LocalNode

End = Callable[[LocalNode, subprocess.Popen[str]], None]


def exit_orderly(node: LocalNode, program: subprocess.Popen[str]) -> None:
    program.communicate("\n", timeout=EVENT_SECONDS)


def kill(node: LocalNode, program: subprocess.Popen[str]) -> None:
    program.kill()


def wait(node: LocalNode, program: subprocess.Popen[str]) -> None:
    """The session ends by itself."""


def release(node: LocalNode, program: subprocess.Popen[str]) -> None:
    node.grant(granted=False)


def stop_node(node: LocalNode, program: subprocess.Popen[str]) -> None:
    """End the launcher as at the end of `./run`. The next one reads why sessions ended."""
    node.launcher.send_signal(signal.SIGINT)
    node.launcher.wait(EVENT_SECONDS)
    node.restart()


ENDS: dict[str, tuple[str, End]] = {
    "the client closed it": ("exit", exit_orderly),
    "the client's connection ended without a close": ("idle", kill),
    "the client sent a malformed record": ("malformed", wait),
    RELEASED: ("idle", release),
    "the node was stopped": ("idle", stop_node),
}
CASES = [
    (reason, mode)
    for reason, (program, _) in ENDS.items()
    for mode in ("shared memory", "TLS")
    if (program, mode) != ("malformed", "TLS")  # the program writes to the shared memory
]


@pytest.mark.parametrize(("reason", "mode"), CASES)
def test_session_ends_with_its_reason(
    null_node: LocalNode, hostile_client: Path, reason: str, mode: str
) -> None:
    program, end = ENDS[reason]
    log = null_node.folder / "launcher.log"

    def reasons() -> list[str]:
        return [s.reason for s in null_node.sessions() if s.state == "closed"]

    with open_session(
        null_node.remote_environment(**MODES[mode]), hostile_client, program
    ) as running:
        end(null_node, running)
        wait_for("the end of the session", lambda: bool(reasons()), log, EVENT_SECONDS)
    assert reasons() == [reason]
