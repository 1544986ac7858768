"""Fixtures that start the whole stack, as `./run` does, and run programs on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import BUILD, ROOT, MachineNode, Stack, wait_for
from remoting.cli.api import Api, ApiError, ApplianceUnreachable, Context, save_context
from tests.migrated import place_migrated_databases
from tests.ports import port
from tests.remoting.node import EVENT_SECONDS
from tests.tokens import create_token

DEMO = str(BUILD / "demo" / "gpu_demo")
VICTIMS = [
    ("agent",),
    ("launcher",),
    pytest.param(("appliance",), marks=pytest.mark.long),
    pytest.param(("agent", "launcher", "appliance"), marks=pytest.mark.long),
]
"""Processes that a test kills at the same time. The appliance takes seconds to start again."""
HOLD_SECONDS = "60"
"""Lease of an allocation: long enough for a client that a busy machine does not let run."""


@dataclass
class Pool:
    """A running stack with an administrator's context and the programs started on it."""

    stack: Stack
    context: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)
    tokens: dict[tuple[str, str], str] = field(default_factory=dict)

    def token(self, user: str, role: str) -> str:
        """Return a token of a user with a role, which the appliance gets at the first call."""
        if (user, role) not in self.tokens:
            self.tokens[user, role] = create_token(self.stack.appliance_data, user, role)
        return self.tokens[user, role]

    @property
    def api(self) -> Api:
        """A new connection with the token of the context."""
        return Api(Context(**json.loads(self.context.read_text())))

    def start_node(self, node: MachineNode) -> None:
        """Enrol a node by the API, which spares a process of 1 s for the token, and start it."""
        node.enrol(self.api.request("POST", "enrolment-tokens")["token"])
        self.stack.start_node(node)

    def start(
        self, percent: int, *command: str, options: Sequence[str] = (), **environment: str
    ) -> subprocess.Popen[str]:
        """Start a program under `busbar run` without waiting for it."""
        line = [
            sys.executable,
            "-m",
            "remoting.cli.main",
            "run",
            "-p",
            str(percent),
            "--timeout",
            "300s",
            *options,
            "--",
            *command,
        ]
        env = (
            os.environ
            | {"BUSBAR_CONTEXT": str(self.context), "PYTHONPATH": str(ROOT)}
            | environment
        )
        process = subprocess.Popen(
            line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.running.append(process)
        return process

    def start_working(
        self, percent: int, seconds: float, pause_ms: int = 0
    ) -> subprocess.Popen[str]:
        """Start the demo program and block until its first result is correct.

        It pauses after each round; without a pause it occupies a processor.
        """
        process = self.start(percent, DEMO, "work", str(seconds), str(pause_ms))
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "working", process.communicate()[1]
        return process

    def finish(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        """Wait for the process. Return exit code, stdout and stderr."""
        out, err = process.communicate(timeout=EVENT_SECONDS)
        return process.returncode, out, err

    def sessions(self, **parameters: str) -> list[dict[str, Any]]:
        return self.api.items("sessions", **parameters)

    def wait(
        self, description: str, done: Callable[[], bool], seconds: float = EVENT_SECONDS
    ) -> None:
        """Poll until `done` returns True. An unreachable appliance counts as False."""

        def poll() -> bool:
            try:
                return done()
            except ApplianceUnreachable:
                return False

        wait_for(description, poll, self.stack.logs / "appliance.log", seconds)

    @contextmanager
    def short_lease(self) -> Iterator[None]:
        """Let allocations end soon after the last heartbeat of their client."""
        for seconds in (1, None):
            self.api.request("PATCH", "settings", {"allocations": {"hold_seconds": seconds}})
            if seconds:
                yield

    def kill(self, *names: str) -> None:
        """Send SIGKILL to processes and block until the supervisor has restarted each."""
        parts = [
            p
            for p in (self.stack.node.agent, self.stack.node.launcher, self.stack.appliance)
            if p.name in names
        ]
        before = {p.name: p.starts for p in parts}
        for p in parts:
            assert p.process is not None
            os.kill(p.process.pid, signal.SIGKILL)
        self.wait("the restart", lambda: all(p.starts > before[p.name] for p in parts))

    def settle(self) -> None:
        """Kill all programs; block until allocations are released and sessions closed.

        Allocations are released at once: by themselves they would end with their lease, later.
        """
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.running.clear()
        for allocation in self.api.items("allocations"):
            if allocation["state"] not in ("released", "releasing"):
                with suppress(ApiError):  # it has ended meanwhile
                    self.api.request("DELETE", f"allocations/{allocation['id']}")
        self.wait(
            "the release of all allocations",
            lambda: (
                all(a["state"] == "released" for a in self.api.items("allocations"))
                and not self.sessions(state="running")
            ),
        )


@contextmanager
def started(
    folder: Path,
    base_port: int,
    nodes: dict[str, int] | None = None,
    address: str = "127.0.0.1",
    **environment: str,
) -> Iterator[Pool]:
    """Run a stack whose nodes are reachable, at an address of this machine.

    `nodes` maps node names to numbers of software GPUs; the default is one node of this machine.
    The appliance also gets the variables of `environment`.
    """
    stack = Stack(folder / "data", address, address, base_port, environment)
    place_migrated_databases(stack.appliance_data)
    try:
        stack.start_appliance()
        token = create_token(stack.appliance_data)
        pool = Pool(
            stack,
            save_context(
                Context(stack.url, token, (stack.appliance_data / "ca.pem").read_text()),
                folder / "context.json",
            ),
        )
        if nodes is None:
            pool.start_node(stack.node)
        else:
            stack.nodes.clear()
            for name, gpus in nodes.items():
                pool.start_node(stack.add_node(name, gpus))
        pool.wait(
            "the nodes",
            lambda: (
                sum(n["reachable"] and bool(n["endpoints"]) for n in pool.api.items("nodes"))
                == len(stack.nodes)
            ),
        )
        yield pool
    finally:
        stack.stop()


@pytest.fixture(scope="package")
def session_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    folder = tmp_path_factory.mktemp("stack")
    with started(folder, port(0), BUSBAR_HOLD_SECONDS=HOLD_SECONDS) as pool:
        yield pool


@pytest.fixture
def pool(session_pool: Pool) -> Iterator[Pool]:
    yield session_pool
    session_pool.settle()
