"""The whole stack, as `./run` starts it, and programs under it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deploy.supervisor import BUILD, ROOT, Stack, wait_for
from remoting.cli.api import Api, Away, Context, save_context

DEMO = str(BUILD / "demo" / "gpu_demo")
HOLD_SECONDS = "8"


@dataclass
class Pool:
    """A running stack, and what a user does with it."""

    stack: Stack
    context: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def api(self) -> Api:
        return Api(Context(**json.loads(self.context.read_text())))

    def start(self, percent: int, *command: str, **environment: str) -> subprocess.Popen[str]:
        line = [
            sys.executable,
            "-m",
            "remoting.cli.main",
            "run",
            "-p",
            str(percent),
            "--timeout",
            "60",
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

    def start_working(self, percent: int, seconds: float) -> subprocess.Popen[str]:
        """Returns once the program's first result was right."""
        process = self.start(percent, DEMO, "work", str(seconds))
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "working", process.communicate()[1]
        return process

    def finish(self, process: subprocess.Popen[str]) -> tuple[int, str, str]:
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def sessions(self, **parameters: str) -> list[dict[str, Any]]:
        return self.api.items("sessions", **parameters)

    def wait(self, what: str, done: Callable[[], bool], seconds: float = 30) -> None:
        def patient() -> bool:
            try:
                return done()
            except Away:
                return False

        wait_for(what, patient, self.stack.logs / "appliance.log", seconds)

    def kill(self, *names: str) -> None:
        """kill -9, and wait until the supervisor has started each again."""
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
        """Everything that a test started is over, in every book."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        self.running.clear()
        self.wait(
            "the release of all",
            lambda: (
                all(a["state"] == "released" for a in self.api.items("allocations"))
                and not self.sessions(state="running")
            ),
            60,
        )


@contextmanager
def started(folder: Path, base_port: int, nodes: dict[str, int] | None = None) -> Iterator[Pool]:
    """A stack with its own node, or with these: name to number of software GPUs. Ready to be used by an administrator."""
    stack = Stack(folder / "data", base_port=base_port)
    try:
        stack.start_appliance()
        token = stack.manage(
            "create_token", "--role", "administrator", "--hours", "1"
        ).splitlines()[-1]
        pool = Pool(
            stack,
            save_context(
                Context(stack.url, token, (stack.appliance_data / "ca.pem").read_text()),
                folder / "context.json",
            ),
        )
        if nodes is None:
            stack.start_node()
        else:
            stack.nodes.clear()
            for name, gpus in nodes.items():
                stack.start_node(stack.add_node(name, gpus))
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


@pytest.fixture(scope="session")
def pool_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    os.environ["BUSBAR_HOLD_SECONDS"] = HOLD_SECONDS
    with started(tmp_path_factory.mktemp("stack"), 28443) as pool:
        yield pool


@pytest.fixture
def pool(pool_of_the_session: Pool) -> Iterator[Pool]:
    yield pool_of_the_session
    pool_of_the_session.settle()
