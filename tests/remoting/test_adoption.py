"""A launcher that is killed finds its sessions again, and believes only in processes that are the same."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.supervisor import BUILD, wait_for
from nodes.launcher_control import SessionReport
from tests.remoting.node import LocalNode


@pytest.fixture
def own() -> Iterator[LocalNode]:
    node = LocalNode()
    yield node
    node.stop()


def working(node: LocalNode, seconds: int = 4) -> subprocess.Popen[str]:
    command = [BUILD / "demo" / "gpu_demo", "work", str(seconds)]
    process = subprocess.Popen(
        command,
        env=node.remote_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    return process


def running(node: LocalNode) -> list[SessionReport]:
    return [s for s in node.sessions() if s.state == "running"]


def test_a_new_launcher_shows_the_same_session_and_process(own: LocalNode) -> None:
    program = working(own)
    before = running(own)[0]
    own.restart()
    after = running(own)[0]
    assert (after.session_id, after.pid) == (before.session_id, before.pid)
    out, err = program.communicate(timeout=30)
    assert program.returncode == 0 and "right after" in out, err
    wait_for(
        "the end in the launcher's list", lambda: not running(own), own.folder / "launcher.log", 10
    )


def test_a_launcher_that_forgets_would_be_noticed(own: LocalNode) -> None:
    """The planted bug: without adoption the session is not in the list, and the test above fails."""
    program = working(own)
    own.restart(BUSBAR_FAILPOINT_NO_ADOPTION="1")
    assert running(own) == []
    assert program.wait(30) == 0


def test_an_adopted_session_ends_when_its_grant_goes(own: LocalNode) -> None:
    program = working(own, 60)
    own.restart()
    own.grant(held=False)
    _, err = program.communicate(timeout=10)
    assert program.returncode != 0 and "its allocation was released" in err


def test_a_raised_fence_ends_older_sessions_within_five_seconds(own: LocalNode) -> None:
    program = working(own, 60)
    own.grant(fence=(1, 6))
    assert program.wait(5) != 0


def test_a_dead_session_is_not_adopted(own: LocalNode) -> None:
    program = working(own, 60)
    session = running(own)[0]
    own.launcher.kill()
    own.launcher.wait()
    os.kill(session.pid, signal.SIGKILL)
    assert program.wait(10) != 0
    own.launcher = own._start()
    assert running(own) == []
    assert [s.state for s in own.sessions() if s.session_id == session.session_id] == ["closed"]


def given_an_hour_ago(node: LocalNode, boot_id: bytes) -> None:
    """Makes the grants on disk those of an hour ago, on the boot of that identity."""
    hour = 3600
    node.control.apply(replace(node.grants(), appliance_seconds=int(time.time()) - hour))
    node.launcher.kill()
    node.launcher.wait()
    saved, head = (
        node.runtime / "grants",
        struct.Struct("<40sq"),
    )  # boot_id, seconds of CLOCK_BOOTTIME
    _, received = head.unpack_from(saved.read_bytes())
    saved.write_bytes(head.pack(boot_id, received - hour) + saved.read_bytes()[head.size :])
    node.launcher = node._start()


def test_a_new_launcher_goes_on_with_the_appliances_clock(own: LocalNode) -> None:
    given_an_hour_ago(own, Path("/proc/sys/kernel/random/boot_id").read_bytes())
    assert working(own, 1).wait(30) == 0


def test_after_another_boot_the_clock_stands_until_the_agent_speaks(own: LocalNode) -> None:
    given_an_hour_ago(own, b"another")
    demo = [BUILD / "demo" / "gpu_demo", "work", "1"]
    refused = subprocess.run(
        demo, check=False, env=own.remote_environment(), capture_output=True, text=True, timeout=60
    )
    assert (
        refused.returncode != 0
        and "the ticket has expired" in (own.folder / "launcher.log").read_text()
    )
    own.grant()
    assert working(own, 1).wait(30) == 0
