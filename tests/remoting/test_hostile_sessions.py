"""Sessions that stop, lie or do not read: the launcher serves the others and ends these in time."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from nodes.launcher_control import Grant, SessionReport
from tests.remoting.hostile_client import open_session
from tests.remoting.node import LocalNode


@contextmanager
def opened(
    node: LocalNode, client: Path, mode: str = "idle", count: int = 1
) -> Iterator[list[int]]:
    """Open sessions of the node's allocation and yield the pids of their session servers."""
    before = {s.pid for s in running(node)}
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(open_session(node.remote_environment(), client, mode))
        yield [s.pid for s in running(node) if s.pid not in before]


def stop(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def running(node: LocalNode) -> list[SessionReport]:
    return [s for s in node.sessions() if s.state == "running"]


def wait_for_end(node: LocalNode, pids: list[int]) -> None:
    """Wait until the processes of sessions are gone."""

    def ended() -> bool:
        return not any(Path(f"/proc/{pid}").exists() for pid in pids)

    wait_for("the end of the sessions", ended, node.folder / "launcher.log")


def test_session_whose_client_overwrites_its_ring_ends_with_its_grant(
    null_node: LocalNode, hostile_client: Path
) -> None:
    with opened(null_node, hostile_client, "lie") as pids:
        null_node.grant(granted=False)
        wait_for_end(null_node, pids)


def test_stopped_session_ends_with_its_grant(null_node: LocalNode, hostile_client: Path) -> None:
    with opened(null_node, hostile_client) as pids:
        stop(pids)
        null_node.grant(granted=False)
        wait_for_end(null_node, pids)


def test_stopped_session_ends_with_the_launcher(null_node: LocalNode, hostile_client: Path) -> None:
    with opened(null_node, hostile_client) as pids:
        stop(pids)
        null_node.launcher.send_signal(signal.SIGINT)
        wait_for_end(null_node, pids)


@pytest.mark.long
def test_list_does_not_wait_for_each_stopped_session(
    null_node: LocalNode, hostile_client: Path
) -> None:
    with opened(null_node, hostile_client, count=4) as pids:
        stop(pids)
        begun = time.monotonic()
        assert len(running(null_node)) == len(pids)
        assert time.monotonic() - begun < 1


@pytest.mark.long
def test_session_opens_while_stopped_ones_end(null_node: LocalNode, hostile_client: Path) -> None:
    other = Grant(uuid.uuid4(), null_node.tenant_id, *null_node.fence, null_node.partitions)
    with opened(null_node, hostile_client, count=4) as pids:
        stop(pids)
        null_node.control.apply(replace(null_node.grants(), grants=(other,)))
        null_node.grant()
        begun = time.monotonic()
        with opened(null_node, hostile_client):
            assert time.monotonic() - begun < 2
        wait_for_end(null_node, pids)


def test_restarted_launcher_adopts_stopped_sessions(
    null_node: LocalNode, hostile_client: Path
) -> None:
    with opened(null_node, hostile_client, count=4) as pids:
        stop(pids)
        null_node.restart()
        assert {s.pid for s in running(null_node)} == set(pids)
        null_node.grant(granted=False)
        wait_for_end(null_node, pids)
