"""Admission of sessions beside 50 hostile ones: stopped, silent and lying."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deploy.supervisor import wait_for
from tests.load.latency import quantile
from tests.load.results import result
from tests.remoting.hostile_client import compile_client, open_session
from tests.remoting.node import NULL_DRIVER, LocalNode

SESSIONS = 50
MEASURED = 100
END_SECONDS = 30.0


def admission_p95_ms(node: LocalNode, client: Path) -> float:
    """Return the 95th percentile of the time from new grants to the first context of a program.

    Meanwhile the list of sessions is requested every second, as an agent does.
    """
    env, ended = node.remote_environment(), threading.Event()

    def poll() -> None:
        while not ended.wait(1.0):
            node.sessions()

    poller = threading.Thread(target=poll)
    poller.start()
    latencies = []
    for _ in range(MEASURED):
        begun = time.monotonic()
        node.grant()
        with open_session(env, client, "idle"):
            latencies.append(time.monotonic() - begun)
    ended.set()
    poller.join()
    return quantile(latencies, 0, 0.95) * 1e3


def running_pids(node: LocalNode) -> set[int]:
    return {s.pid for s in node.sessions() if s.state == "running"}


def make_hostile(node: LocalNode, client: Path, stack: ExitStack) -> None:
    """Open the sessions: a third each has a stopped server, a stopped client or a lying client."""
    env = node.remote_environment()
    for n in range(SESSIONS):
        before = running_pids(node)
        mode = "lie" if n % 3 == 2 else "idle"
        program: subprocess.Popen[str] = stack.enter_context(open_session(env, client, mode))
        if n % 3 == 0:
            for pid in running_pids(node) - before:
                os.kill(pid, signal.SIGSTOP)
        elif n % 3 == 1:
            program.send_signal(signal.SIGSTOP)


def make_idle(node: LocalNode, client: Path, stack: ExitStack) -> None:
    env = node.remote_environment()
    for _ in range(SESSIONS):
        stack.enter_context(open_session(env, client, "idle"))


def measure_beside(
    make: Callable[[LocalNode, Path, ExitStack], None], node: LocalNode, client: Path
) -> float:
    """Measure the admission beside 50 sessions, then end these."""
    with ExitStack() as stack:
        make(node, client, stack)
        p95_ms = admission_p95_ms(node, client)
        node.grant(granted=False)
        log = node.folder / "launcher.log"
        wait_for("the end of the sessions", lambda: not running_pids(node), log, END_SECONDS)
    node.grant()
    return p95_ms


def measure(folder: Path) -> list[dict[str, Any]]:
    """Compare admission beside idle sessions with admission beside hostile ones."""
    node, client = LocalNode(NULL_DRIVER), compile_client(folder)
    try:
        idle_ms = measure_beside(make_idle, node, client)
        hostile_ms = measure_beside(make_hostile, node, client)
    finally:
        node.stop()
    rise_ms = max(0.0, hostile_ms - idle_ms)
    more = {"idle_p95_ms": round(idle_ms, 2), "hostile_p95_ms": round(hostile_ms, 2)}
    return [result("admission_p95_rise_ms", "ms", rise_ms, 100, sessions=SESSIONS, more=more)]
