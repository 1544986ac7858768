"""Charges of device memory: the ledger holds what the driver has given to a session."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deploy.supervisor import READY_SECONDS, ROOT, wait_for
from nodes.launcher_control import Partition
from tests.planted_program import planted_program
from tests.remoting.node import LocalNode, gpu_memory_bytes

MIB = 1 << 20
LIMIT = 256 * MIB
OUT_OF_MEMORY = "error 2"
ALLOCATING = [sys.executable, "-m", "tests.remoting.allocating_program"]
KINDS = (
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemCreate",
    "cuArrayCreate",
    "cuArray3DCreate",
    "cuMipmappedArrayCreate",
    "cuModuleLoadData",
    "cuLinkComplete",
    "cuLibraryLoadData",
    "cuCtxSetLimit",
    "cuGraphAddMemAllocNode",
    "cuMemHostAlloc",
)
"""Of `allocating_program`."""
KINDS_OF_ARENA = (*KINDS, "cuMemAllocManaged")
"""Managed memory needs an arena."""
STEPS = 60
FAULT_SECONDS = 3.0
"""After this time books that differ are wrong, not late."""


class Program:
    """A running `allocating_program`."""

    def __init__(self, node: LocalNode, *, arena: bool) -> None:
        self.node = node
        self.process = subprocess.Popen(
            ALLOCATING,
            env=node.remote_environment(BUSBAR_ARENA=str(int(arena))),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._line()

    def allocate(self, kind: str, count: int) -> str:
        return self.tell(f"allocate {kind} {count}")


@contextmanager
def program(node: LocalNode, *, arena: bool = False) -> Iterator[Program]:
    running = Program(node, arena=arena)
    try:
        yield running
    finally:
        running.process.kill()
        with running.process:
            pass


@pytest.fixture
def small_node() -> Iterator[LocalNode]:
    node = LocalNode()
    node.partitions = (Partition(node.gpus[0], LIMIT, 50),)
    node.grant()
    yield node
    node.stop()


def charged_bytes(node: LocalNode) -> int:
    return sum(sum(s.partition_bytes) for s in node.sessions() if s.state == "running")


def driver_bytes(node: LocalNode) -> int:
    """Return what the driver's books hold for the processes of the GPU."""
    return sum(gpu_memory_bytes(node.env))


def await_equal_books(node: LocalNode, seconds: float = READY_SECONDS) -> int:
    """Wait until ledger and driver agree, as releases are asynchronous. Return the charge."""
    log = node.folder / "launcher.log"
    wait_for("equal books", lambda: charged_bytes(node) == driver_bytes(node), log, seconds)
    return charged_bytes(node)


def await_no_charge(node: LocalNode) -> None:
    log = node.folder / "launcher.log"
    wait_for("no charge", lambda: (charged_bytes(node), driver_bytes(node)) == (0, 0), log)


def allocate_at_random(
    node: LocalNode, *, arena: bool, seed: int, seconds: float = READY_SECONDS
) -> set[str]:
    """Allocate and release at random, compare the books at each step, release everything.

    Returns the kinds that were allocated. Raises SystemExit if the books differ for `seconds`.
    """
    choose, kinds = random.Random(seed), KINDS_OF_ARENA if arena else KINDS
    held: list[str] = []
    done: set[str] = set()
    with program(node, arena=arena) as p:
        for _ in range(STEPS):
            if held and choose.random() < 0.45:
                assert p.tell(f"release {held.pop(choose.randrange(len(held)))}") == "ok"
            else:
                kind = choose.choice([k for k in kinds if k != "cuCtxSetLimit" or k not in done])
                answer = p.allocate(kind, choose.choice((1, 700, 5000, 300_000, 3 * MIB)) + 5000)
                if answer != OUT_OF_MEMORY:
                    held.append(answer.removeprefix("ok "))
                    done.add(kind)
            assert await_equal_books(node, seconds) <= LIMIT
        for number in held:
            assert p.tell(f"release {number}") == "ok"
        if not arena:  # which keeps leases
            await_no_charge(node)
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_allocation_is_charged_until_it_is_released(small_node: LocalNode, kind: str) -> None:
    with program(small_node) as p:
        answer = p.allocate(kind, 3 * MIB)
        assert answer.startswith("ok")
        assert 3 * MIB <= await_equal_books(small_node) <= 5 * MIB
        assert p.tell(f"release {answer.removeprefix('ok ')}") == "ok"
        await_no_charge(small_node)


@pytest.mark.parametrize("kind", KINDS)
def test_allocation_above_the_limit_takes_no_memory(small_node: LocalNode, kind: str) -> None:
    with program(small_node) as p:
        assert p.allocate(kind, LIMIT + MIB) == OUT_OF_MEMORY
        assert driver_bytes(small_node) == 0
        await_no_charge(small_node)


@pytest.mark.parametrize("arena", [False, True])
def test_ledger_equals_the_books_of_the_driver(small_node: LocalNode, arena: bool) -> None:
    assert len(allocate_at_random(small_node, arena=arena, seed=1)) >= len(KINDS) - 3


def test_charge_that_is_left_out_is_detected(tmp_path: Path) -> None:
    definition = "BUSBAR_PLANTED_UNCHARGED"
    planted = planted_program(tmp_path, "busbar-session", "server/module.cc", definition)
    node = LocalNode(session_program=planted)
    node.partitions = (Partition(node.gpus[0], LIMIT, 50),)
    node.grant()
    try:
        with pytest.raises(SystemExit, match="equal books"):
            allocate_at_random(node, arena=False, seed=1, seconds=FAULT_SECONDS)
    finally:
        with suppress(AssertionError):
            node.stop()


def test_module_that_the_driver_refuses_leaves_no_charge(small_node: LocalNode) -> None:
    with program(small_node) as p:
        assert p.allocate("refused_module", 3 * MIB) == "error 218"
        await_no_charge(small_node)
