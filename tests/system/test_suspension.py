"""Suspension of allocations through the whole stack, also while its processes are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deploy.supervisor import ROOT
from tests.remoting.node import EVENT_SECONDS, gpu_memory_bytes
from tests.remoting.suspended_contents import contents, digest
from tests.system.conftest import VICTIMS, Pool
from tests.system.test_command import busbar

pytestmark = pytest.mark.system
MIB = 1 << 20
BLOCK = 64 * MIB
SUSPENDING = (sys.executable, "-m", "tests.remoting.suspending_program")


class Program:
    """A `suspending_program` under `busbar run`, with a block of memory."""

    def __init__(self, pool: Pool, process: subprocess.Popen[str]) -> None:
        self.pool, self.process = pool, process
        assert self._line() == "ready", process.communicate()[1]
        pool.wait("the session", lambda: len(pool.sessions(state="running")) == 1)
        self.allocation_id = pool.sessions(state="running")[0]["allocation_id"]
        assert self.tell(f"allocate cuMemAlloc {BLOCK} 7") == "ok 1"
        self.address = self.tell("digest 1").split()[1]

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._line()

    @property
    def allocation(self) -> dict[str, Any]:
        return dict(self.pool.api.request("GET", f"allocations/{self.allocation_id}"))

    def post(self, action: str) -> None:
        self.pool.api.request("POST", f"allocations/{self.allocation_id}/{action}")

    def await_state(self, state: str, suspension: str | None) -> None:
        seen: list[object] = []

        def reached() -> bool:
            row = self.allocation
            seen[:] = [row["state"], row["suspension"]]
            found = row["suspension"] and row["suspension"]["state"]
            return bool(row["state"] == state and found == suspension)

        try:
            self.pool.wait(f"{state}, {suspension}", reached)
        except SystemExit:
            pytest.fail(f"not {state} with {suspension}: {seen}")

    def memory_is_equal(self) -> bool:
        """Return whether the block has its contents at its address. Resumes the session."""
        return self.tell("digest 1") == f"{digest(contents(BLOCK, 7))} {self.address}"

    def driver_bytes(self) -> int:
        return sum(gpu_memory_bytes(self.pool.stack.node.environment()))


@contextmanager
def program(pool: Pool) -> Iterator[Program]:
    line = (sys.executable, "-m", "remoting.cli.main", "run", "-m", "512MiB", "--", *SUSPENDING)
    process = subprocess.Popen(
        line,
        env=os.environ | {"BUSBAR_CONTEXT": str(pool.context), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    pool.running.append(process)
    yield Program(pool, process)


def test_command_suspends_and_a_call_resumes(pool: Pool) -> None:
    with program(pool) as p:
        before = p.driver_bytes()
        suspended = busbar(pool.context, "allocation", "suspend", p.allocation_id, "--wait", "60s")
        assert suspended.returncode == 0, suspended.stderr
        assert suspended.stdout.startswith("suspended, ")
        assert p.driver_bytes() <= before - BLOCK
        assert p.allocation["suspension"]["released_bytes"] >= BLOCK
        (session,) = pool.sessions(state="suspended")
        assert session["allocation_id"] == p.allocation_id
        assert p.memory_is_equal()
        p.await_state("active", None)
        assert p.process.poll() is None and p.driver_bytes() == before


def test_command_resumes_before_a_call(pool: Pool) -> None:
    with program(pool) as p:
        before = p.driver_bytes()
        p.post("suspend")
        p.await_state("suspended", "suspended")
        resumed = busbar(pool.context, "allocation", "resume", p.allocation_id, "--wait", "60s")
        assert (resumed.returncode, resumed.stdout.strip()) == (0, "active"), resumed.stderr
        assert p.driver_bytes() == before and p.memory_is_equal()


@pytest.mark.long
def test_session_with_work_makes_it_fail_with_the_reason(pool: Pool) -> None:
    with program(pool) as p:
        assert p.tell("begin") == "ok"  # a capture
        p.post("suspend")
        p.await_state("active", "failed")
        assert "capture" in p.allocation["suspension"]["reason"]
        assert p.tell("end") == "ok" and p.memory_is_equal()


@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
def test_states_agree_after_a_kill_at_each_step(pool: Pool, victims: tuple[str, ...]) -> None:
    with program(pool) as p:
        p.post("suspend")
        pool.kill(*victims)
        p.await_state("suspended", "suspended")
        pool.kill(*victims)
        p.await_state("suspended", "suspended")
        assert p.driver_bytes() < BLOCK
        p.post("resume")
        pool.kill(*victims)
        p.await_state("active", None)
        assert p.memory_is_equal()
        p.post("suspend")
        p.await_state("suspended", "suspended")
        pool.kill(*victims)
        assert p.memory_is_equal(), "a call does not need the processes that were killed"
        p.await_state("active", None)
        pool.wait("the session", lambda: len(pool.sessions(state="running")) == 1)


def test_release_of_a_suspended_allocation_frees_everything(pool: Pool) -> None:
    with program(pool) as p:
        p.post("suspend")
        p.await_state("suspended", "suspended")
        pool.api.request("DELETE", f"allocations/{p.allocation_id}")
        pool.wait("the release", lambda: p.allocation["state"] == "released")
        assert p.driver_bytes() == 0
        assert p.process.wait(EVENT_SECONDS) != 0
