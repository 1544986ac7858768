"""A hundred partitions of one percent on one software GPU, which all have work."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from remoting.bench.shared_node import SharedNode

PARTITIONS, ROUNDS = 100, 20
MEMORY_BYTES = 6 << 30
SAMPLES = 30
MOST_RUNNING = 0.1
"""Share of the session servers that have a thread with a core or waiting for one. It is 3 percent;
if those that wait spin, it is nearly all."""

pytestmark = pytest.mark.long


@pytest.fixture
def node() -> Iterator[SharedNode]:
    node = SharedNode(BUSBAR_SOFTGPU_DEVICES="1")
    yield node
    node.stop()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def started(stack: ExitStack, command: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
    """Start a program, which ends with the stack."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True)
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


def is_running(pid: int) -> bool:
    """Return whether a thread of a process has a core or waits for one."""
    states = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # the thread has ended
            states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
    return "R" in states


def share_running(pids: Sequence[int]) -> float:
    """Return the share of processes that run, as an average of samples."""
    return sum(is_running(pid) for _ in range(SAMPLES) for pid in pids) / (SAMPLES * len(pids))


def test_hundred_partitions_compute_right_results_and_waiting_sessions_do_not_spin(
    node: SharedNode, compiled: Callable[[str], Path]
) -> None:
    program = str(compiled("many_rounds"))
    environments = node.share([1] * PARTITIONS, MEMORY_BYTES)
    with ExitStack() as stack:
        programs = [
            started(stack, [program, str(value), str(ROUNDS)], env)
            for value, env in enumerate(environments)
        ]
        assert [line_of(p) for p in programs] == ["ready"] * PARTITIONS
        pids = [s.pid for s in node.sessions() if s.state == "running"]
        assert len(pids) == PARTITIONS
        for process in programs:
            begin(process)
        assert share_running(pids) < MOST_RUNNING
        assert [line_of(p) for p in programs] == ["passed"] * PARTITIONS
