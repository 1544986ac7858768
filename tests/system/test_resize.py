"""Resizes of running programs through the whole stack, also while its processes are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from deploy.supervisor import ROOT
from tests.remoting.node import gpu_memory_bytes
from tests.system.conftest import VICTIMS, Pool
from tests.system.test_command import busbar

pytestmark = pytest.mark.system
MIB = 1 << 20
OUT_OF_MEMORY = "error 2"
RESIZING = (sys.executable, "-m", "tests.remoting.resizing_program")


class Program:
    """A `resizing_program` under `busbar run`, and its allocation."""

    def __init__(self, pool: Pool, process: subprocess.Popen[str], others: set[str]) -> None:
        """`others` are the allocations of earlier programs."""
        self.pool, self.process = pool, process
        assert self._line() == "ready", process.communicate()[1]
        pool.wait("the session", lambda: len(running_allocations(pool) - others) == 1)
        (self.allocation_id,) = running_allocations(pool) - others

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._line()

    def allocate(self, count: int) -> str:
        return self.tell(f"allocate {count}")

    @property
    def allocation(self) -> dict[str, Any]:
        path = f"allocations/{self.allocation_id}"
        return dict(self.pool.api.request("GET", path))

    def resize(self, **size: int | str) -> dict[str, Any]:
        path = f"allocations/{self.allocation_id}"
        return dict(self.pool.api.request("PATCH", path, size))

    def await_agreement(self, size: int) -> None:
        """Wait until program, REST, ledger and driver agree, with this size."""
        seen: dict[str, object] = {}

        def agree() -> bool:
            allocation = self.allocation
            driver = sum(gpu_memory_bytes(self.pool.stack.node.environment()))
            seen.update(
                resize=allocation["resize"],
                partitions=[p["memory_bytes"] for p in allocation["partitions"]],
                program=set(map(int, self.tell("sizes").split())),
                ledger=[s["memory_bytes"] for s in self.pool.sessions(state="running")],
                driver=driver,
            )
            expected = {"resize": None, "partitions": [size], "program": {size}}
            return driver <= size and seen == expected | {"ledger": [driver], "driver": driver}

        try:
            self.pool.wait(f"a size of {size} bytes everywhere", agree)
        except SystemExit:
            pytest.fail(f"no agreement about {size} bytes: {seen}")


def running_allocations(pool: Pool) -> set[str]:
    return {s["allocation_id"] for s in pool.sessions(state="running")}


@contextmanager
def program(pool: Pool, *options: str) -> Iterator[Program]:
    others = running_allocations(pool)
    line = (sys.executable, "-m", "remoting.cli.main", "run", *options, "--", *RESIZING)
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
    yield Program(pool, process, others)


def test_command_resizes_a_running_program(pool: Pool) -> None:
    with program(pool, "-m", "512MiB") as p:
        session = pool.sessions(state="running")[0]["id"]
        grown = busbar(pool.context, "resize", p.allocation_id, "-m", "1GiB", "-p", "35")
        assert grown.returncode == 0 and "35 % of the compute, 1.00 GiB" in grown.stdout
        p.await_agreement(1024 * MIB)
        shrunk = busbar(pool.context, "resize", p.allocation_id, "-m", "256MiB")
        assert "35 % of the compute, 256.00 MiB" in shrunk.stdout
        p.await_agreement(256 * MIB)
        assert [s["id"] for s in pool.sessions(state="running")] == [session]
        nothing = busbar(pool.context, "resize", p.allocation_id)
        assert nothing.returncode == 2 and "--percent" in nothing.stderr


def test_mode_of_a_running_program_is_in_force_without_a_new_session(pool: Pool) -> None:
    with program(pool, "-m", "512MiB", "-p", "30") as p:
        session = pool.sessions(state="running")[0]["id"]

        def is_limited(wanted: bool) -> bool:
            how = str(p.allocation["compute_enforcement"])
            return how.startswith("enforced") == wanted

        assert is_limited(False), "it has the GPU for itself"
        for mode, limited in (("capped", True), ("shared", False)):
            changed = busbar(pool.context, "resize", p.allocation_id, "--mode", mode)
            assert changed.returncode == 0 and f", {mode}\n" in changed.stdout, changed
            pool.wait(f"the mode {mode}", partial(is_limited, limited))
        assert [s["id"] for s in pool.sessions(state="running")] == [session]


def test_memory_in_use_is_given_to_others_when_it_is_freed(pool: Pool) -> None:
    with program(pool, "-m", "1GiB", "-p", "10") as p:
        held = [p.allocate(256 * MIB).removeprefix("ok ") for _ in range(3)]
        shrunk = busbar(pool.context, "resize", p.allocation_id, "-m", "512MiB", "--wait", "1s")
        assert "Resize shrinking: " in shrunk.stdout and "MiB returned." in shrunk.stdout
        shown = busbar(pool.context, "allocation", "show", p.allocation_id)
        assert "shrinking: " in shown.stdout and "MiB returned." in shown.stdout
        assert p.allocate(256 * MIB) == OUT_OF_MEMORY
        for number in held[:2]:
            assert p.tell(f"release {number}") == "ok"
        p.await_agreement(512 * MIB)


def test_growth_that_waits_is_explained_and_granted_after_a_release(pool: Pool) -> None:
    held = {"hold": "lifetime", "lifetime_seconds": 600}
    most = {"percent": 80, "gpu_count": len(pool.api.items("gpus"))}
    other = pool.api.request("POST", "allocations", most | held, wait="60")
    with program(pool, "-p", "10") as p:
        size = p.allocation["partitions"][0]["memory_bytes"]
        waiting = busbar(pool.context, "resize", p.allocation_id, "-p", "50", "--wait", "0s")
        assert "Resize queued" in waiting.stdout and "adds 40 %" in waiting.stdout
        explained = busbar(pool.context, "explain", p.allocation_id)
        assert explained.stdout.startswith("capacity: ")
        p.tell("sizes")
        pool.api.request("DELETE", f"allocations/{other['id']}")
        pool.wait("the growth", lambda: p.allocation["resize"] is None)
        grown = p.allocation["partitions"][0]
        assert grown["compute_percent"] == 50 and grown["memory_bytes"] > 4 * size
        p.await_agreement(grown["memory_bytes"])


@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
def test_books_agree_after_a_kill_between_the_steps(pool: Pool, victims: tuple[str, ...]) -> None:
    with program(pool, "-m", "1GiB") as p:
        held = [p.allocate(128 * MIB).removeprefix("ok ") for _ in range(3)]
        p.resize(memory_bytes=2048 * MIB)
        pool.kill(*victims)
        p.await_agreement(2048 * MIB)
        p.resize(memory_bytes=256 * MIB)
        pool.kill(*victims)
        pool.wait("the lower limit", lambda: p.tell("sizes").split()[0] == str(256 * MIB))
        assert p.allocate(MIB * 128) == OUT_OF_MEMORY
        pool.wait("shrinking", lambda: p.allocation["resize"]["state"] == "shrinking")
        for number in held:
            assert p.tell(f"release {number}") == "ok"
        p.await_agreement(256 * MIB)
