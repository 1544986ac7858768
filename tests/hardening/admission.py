"""Admission of sessions beside 50 hostile ones: stopped, silent and lying, or spinning."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.supervisor import wait_for
from tests.hardening.processor_groups import processor_groups
from tests.load.latency import quantile
from tests.load.results import result
from tests.remoting.hostile_client import compile_client, open_session
from tests.remoting.node import NULL_DRIVER, LocalNode

SESSIONS, MEASURED = 50, 100
END_SECONDS = 30.0
SPINNING_SHARE = 0.01
"""Of a core, for a spinning program with its session server."""
MAX_RISE_MS = 100


@dataclass(frozen=True)
class Crowd:
    """Sessions that are open while the admission of others is measured."""

    node: LocalNode
    client: Path
    sessions: int = SESSIONS
    measured: int = MEASURED

    def open(self, stack: ExitStack, mode: str) -> tuple[subprocess.Popen[str], set[int]]:
        """Open a session. Return its program and the pid of its session server."""
        before, env = running_pids(self.node), self.node.remote_environment()
        program = stack.enter_context(open_session(env, self.client, mode))
        return program, running_pids(self.node) - before


def admission_p95_ms(crowd: Crowd) -> float:
    """Return the 95th percentile of the time from new grants to the first context of a program.

    Meanwhile the list of sessions is requested every second, as an agent does.
    """
    node, ended = crowd.node, threading.Event()
    env = node.remote_environment()

    def poll() -> None:
        while not ended.wait(1.0):
            node.sessions()

    poller = threading.Thread(target=poll)
    poller.start()
    latencies = []
    for _ in range(crowd.measured):
        begun = time.monotonic()
        node.grant()
        with open_session(env, crowd.client, "idle"):
            latencies.append(time.monotonic() - begun)
    ended.set()
    poller.join()
    return quantile(latencies, 0, 0.95) * 1e3


def running_pids(node: LocalNode) -> set[int]:
    return {s.pid for s in node.sessions() if s.state == "running"}


def make_idle(crowd: Crowd, stack: ExitStack) -> None:
    for _ in range(crowd.sessions):
        crowd.open(stack, "idle")


def make_hostile(crowd: Crowd, stack: ExitStack) -> None:
    """Open the sessions: a third each has a stopped server, a stopped client or a lying client."""
    for n in range(crowd.sessions):
        program, servers = crowd.open(stack, "lie" if n % 3 == 2 else "idle")
        if n % 3 == 0:
            for pid in servers:
                os.kill(pid, signal.SIGSTOP)
        elif n % 3 == 1:
            program.send_signal(signal.SIGSTOP)


def make_spinning(crowd: Crowd, stack: ExitStack, share: float | None = SPINNING_SHARE) -> None:
    """Open sessions that use all processor time that they get, each at most the share of a core.

    Some time is reserved for launcher and spawner. Without a share there are no limits.
    """
    groups = stack.enter_context(processor_groups())
    if share:
        groups.reserve((crowd.node.launcher.pid, crowd.node.spawner.pid))
    for _ in range(crowd.sessions):
        program, servers = crowd.open(stack, "spin")
        if share:
            groups.limit((program.pid, *servers), share)


def measure_beside(make: Callable[[Crowd, ExitStack], None], crowd: Crowd) -> float:
    """Measure the admission beside sessions, then end these."""
    node = crowd.node
    with ExitStack() as stack:
        make(crowd, stack)
        p95_ms = admission_p95_ms(crowd)
        node.grant(granted=False)
        log = node.folder / "launcher.log"
        wait_for("the end of the sessions", lambda: not running_pids(node), log, END_SECONDS)
    node.grant()
    return p95_ms


def measure(folder: Path, sessions: int = SESSIONS, measured: int = MEASURED) -> list[Any]:
    """Compare admission beside idle sessions with admission beside hostile ones."""
    node = LocalNode(NULL_DRIVER)
    crowd = Crowd(node, compile_client(folder), sessions, measured)
    try:
        idle_ms = measure_beside(make_idle, crowd)
        hostile_ms = measure_beside(make_hostile, crowd)
        spinning_ms = measure_beside(make_spinning, crowd)
    finally:
        node.stop()
    return [
        rise("admission_p95_rise_ms", idle_ms, hostile_ms, sessions),
        rise("admission_spinning_p95_rise_ms", idle_ms, spinning_ms, sessions),
    ]


def rise(name: str, idle_ms: float, beside_ms: float, sessions: int) -> dict[str, Any]:
    """Return the row of a rise of the 95th percentile above that beside idle sessions."""
    more = {"idle_p95_ms": round(idle_ms, 2), "beside_p95_ms": round(beside_ms, 2)}
    value = max(0.0, beside_ms - idle_ms)
    return result(name, "ms", value, MAX_RISE_MS, sessions=sessions, more=more)
