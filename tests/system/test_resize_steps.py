"""Resizes while a process of the node is killed at each step. All books agree afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from nodes.processes import SupervisedProcess
from tests.remoting.node import BUILD, FAILPOINTS, gpu_memory_bytes
from tests.system.conftest import Pool
from tests.system.killed_agent import STEPS
from tests.system.test_resize import MIB, OUT_OF_MEMORY, Program, program

pytestmark = [pytest.mark.system, pytest.mark.long]
AGENT, LAUNCHER = "agent", "launcher"
KILLS = [(AGENT, step) for step in STEPS] + [(LAUNCHER, step) for step in ("stored", "shown")]


def is_shrinking(p: Program) -> bool:
    resize = p.allocation["resize"]
    return resize is not None and resize["state"] == "shrinking"


def has_restarted(part: SupervisedProcess, starts: int) -> bool:
    return part.starts > starts


def sees_size(p: Program, size: int) -> bool:
    return p.tell("sizes").split()[0] == str(size)


def taken_bytes(pool: Pool) -> int:
    """Return the memory of the GPUs that counts as taken."""
    total = pool.api.request("GET", "capacity")["total"]
    return int(total["memory_bytes"]["allocated"])


@contextmanager
def replaced(
    pool: Pool, part: SupervisedProcess, command: list[str], **more: str
) -> Iterator[None]:
    """Run a part of the node with another command and environment."""
    own = part.command, part.environment
    part.command, part.environment = command, part.environment | more
    pool.kill(part.name)
    try:
        yield
    finally:
        part.command, part.environment = own
        pool.kill(part.name)


@contextmanager
def killed_at(pool: Pool, name: str, step: str, file: Path) -> Iterator[SupervisedProcess]:
    """Yield a part that is killed at the step of a resize: the agent if the file names it."""
    node = pool.stack.node
    if name == AGENT:
        python, *_ = node.agent.command
        arguments = node.agent.command[3:]
        command = [python, "-m", "tests.system.killed_agent", str(file), *arguments]
        with replaced(pool, node.agent, command):
            yield node.agent
    else:
        command = [str(BUILD / FAILPOINTS / "busbar-launcher"), *node.launcher.command[1:]]
        with replaced(pool, node.launcher, command, BUSBAR_FAILPOINT_GRANTS=step):
            yield node.launcher


@pytest.mark.parametrize(("name", "step"), KILLS)
def test_books_agree_after_a_kill_at_a_step(
    pool: Pool, tmp_path: Path, name: str, step: str
) -> None:
    file = tmp_path / "step"
    with program(pool, "-m", "1GiB") as p, killed_at(pool, name, step, file) as part:
        held = [p.allocate(128 * MIB).removeprefix("ok ") for _ in range(3)]
        for size in (2048 * MIB, 256 * MIB):
            starts = part.starts
            file.write_text(f"{size} {step}")
            p.resize(memory_bytes=size)
            pool.wait("the restart", partial(has_restarted, part, starts))
            pool.wait("the size", partial(sees_size, p, size))
            assert part.starts == starts + 1, "it was killed by other changes, too"
        assert p.allocate(128 * MIB) == OUT_OF_MEMORY
        pool.wait("shrinking", lambda: is_shrinking(p))
        for number in held:
            assert p.tell(f"release {number}") == "ok"
        p.await_agreement(256 * MIB)
        assert taken_bytes(pool) == 256 * MIB


@pytest.mark.parametrize("is_stopped", [True, False], ids=["before it is told", "after"])
def test_session_server_killed_during_a_shrink_leaves_nothing_taken(
    pool: Pool, is_stopped: bool
) -> None:
    with program(pool, "-m", "1GiB") as p:
        assert p.allocate(512 * MIB).startswith("ok")
        (session,) = pool.sessions(state="running")
        if is_stopped:
            os.kill(session["pid"], signal.SIGSTOP)
        p.resize(memory_bytes=256 * MIB)
        pool.wait("shrinking", lambda: is_shrinking(p))
        assert taken_bytes(pool) > 512 * MIB
        os.kill(session["pid"], signal.SIGKILL)

        def is_over() -> bool:
            driver = sum(gpu_memory_bytes(pool.stack.node.environment()))
            sessions = pool.sessions(state="running")
            return p.allocation["resize"] is None and not driver and not sessions

        pool.wait("the end of the resize", is_over)
        assert taken_bytes(pool) == 256 * MIB
