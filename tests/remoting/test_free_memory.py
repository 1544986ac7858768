"""Free memory of a partition: what is called free can be allocated, by any process of it.

The programs are `resizing_program`, which holds 64 KiB from its start, `filling_program` and
`allocating_program`.
"""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy.supervisor import wait_for
from nodes.launcher_control import Partition
from tests.remoting.modes import MODES, WITH_ARENAS
from tests.remoting.node import NVIDIA_NULL_DRIVER, LocalNode, gpu_memory_bytes
from tests.remoting.test_charges import KINDS_OF_ARENA
from tests.remoting.test_charges import Program as AllocatingProgram
from tests.remoting.test_charges import program as allocating_program
from tests.remoting.test_context_charges import (
    CONTEXT,
    filling_program,
    line_of,
    node_with_contexts,
)
from tests.remoting.test_resize import OUT_OF_MEMORY, SECONDS, Program, program

MIB = 1 << 20
PARTITION = 256 * MIB
LEASE = 2 * MIB
"""The smallest one, which holds the first allocations of a process."""
PROCESSES = 5
STEPS = 60
UNUSED = 20 * MIB
COUNT = 14 * MIB
"""Bytes that fit in the unused lease of a full partition only."""


@pytest.fixture
def node() -> Iterator[LocalNode]:
    found = node_with_contexts(1 << 30)
    found.partitions = (Partition(found.gpus[0], PARTITION, 50, CONTEXT),)
    found.grant()
    yield found
    found.stop()


def free_bytes(p: Program) -> int:
    return int(p.tell("free").split()[0])


def used_bytes(p: Program) -> int:
    """Return what NVML says about the whole partition."""
    return int(p.tell("free").split()[1])


def charged_bytes(node: LocalNode, p: Program) -> int:
    """Return what the node charges to a program, without its context."""
    (session,) = (s for s in node.sessions() if s.client_pid == p.process.pid)
    return session.memory_bytes


def allocate(p: Program, count: int) -> str:
    answer = p.allocate(count)
    assert answer.startswith("ok"), answer
    return answer.removeprefix("ok ")


def hold_unused_memory(p: Program, count: int) -> None:
    """Let a program release memory whose leases it keeps for its next allocations."""
    assert p.tell(f"release {allocate(p, count)}") == "ok"
    assert used_bytes(p) >= count


@pytest.mark.parametrize("mode", MODES)
def test_partition_without_its_context_is_one_allocation(node: LocalNode, mode: str) -> None:
    with filling_program(node.remote_environment(**MODES[mode])) as p:
        assert line_of(p) == str(PARTITION - CONTEXT)
        assert sum(gpu_memory_bytes(node.env)) == PARTITION


@pytest.mark.parametrize("count", [MIB, 5 * MIB, 33 * MIB])
def test_what_is_called_free_is_one_allocation(node: LocalNode, count: int) -> None:
    with program(node) as p:
        for _ in range(3):
            allocate(p, count)
        free = free_bytes(p)
        assert free >= PARTITION - CONTEXT - LEASE - 3 * (count + MIB)
        allocate(p, free)
        assert free_bytes(p) == 0


def test_partition_of_odd_size_calls_free_what_fits_into_leases(node: LocalNode) -> None:
    node.partitions = (Partition(node.gpus[0], PARTITION + MIB, 50, CONTEXT),)
    node.grant()
    with filling_program(node.remote_environment()) as p:
        assert line_of(p) == str(PARTITION - CONTEXT)


@pytest.mark.parametrize("mode", WITH_ARENAS)
def test_processes_with_little_memory_leave_the_rest(node: LocalNode, mode: str) -> None:
    with ExitStack() as running:
        small = [running.enter_context(program(node, **MODES[mode])) for _ in range(PROCESSES)]
        for p in small:
            allocate(p, MIB)
        further = (PROCESSES - 1) * CONTEXT
        assert used_bytes(small[0]) == PROCESSES * LEASE + further
        assert sum(gpu_memory_bytes(node.env)) == PROCESSES * (LEASE + CONTEXT)
        with filling_program(node.remote_environment(**MODES[mode])) as filling:
            assert line_of(filling) == str(PARTITION - PROCESSES * (LEASE + CONTEXT) - CONTEXT)


@pytest.mark.parametrize("mode", WITH_ARENAS)
def test_memory_that_idle_processes_do_not_use_can_be_had(node: LocalNode, mode: str) -> None:
    with program(node) as first, program(node, **MODES[mode]) as second, program(node) as third:
        hold_unused_memory(first, 40 * MIB)
        hold_unused_memory(second, 50 * MIB)
        rest = PARTITION - 3 * (CONTEXT + LEASE)
        number = allocate(third, rest)
        assert used_bytes(third) == PARTITION - CONTEXT
        assert first.allocate(LEASE) == OUT_OF_MEMORY
        assert third.tell(f"release {number}") == "ok"
        allocate(first, rest)


def test_context_is_made_in_memory_that_others_do_not_use(node: LocalNode) -> None:
    with program(node) as first:
        hold_unused_memory(first, 50 * MIB)
        allocate(first, free_bytes(first) - 50 * MIB)
        number = allocate(first, free_bytes(first))
        assert first.tell(f"release {number}") == "ok"
        with program(node) as second:
            allocate(second, MIB)


@pytest.mark.parametrize("mode", WITH_ARENAS)
def test_unused_memory_is_returned_while_a_kernel_waits_for_its_program(
    node: LocalNode, mode: str
) -> None:
    with program(node, **MODES[mode]) as first, program(node) as second:
        hold_unused_memory(first, 50 * MIB)
        assert first.tell("spin") == "ok"
        number = allocate(second, PARTITION - 2 * (CONTEXT + LEASE) - 4 * MIB)
        assert second.tell(f"release {number}") == "ok"
        allocate(first, 60 * MIB)
        assert first.tell("stop") == "ok"


@pytest.mark.parametrize("stop", ["stop", "stop_while_freeing"])
@pytest.mark.parametrize("mode", WITH_ARENAS)
def test_freed_memory_is_returned_when_its_work_ends(node: LocalNode, mode: str, stop: str) -> None:
    """A free of other memory makes it available to the program itself first."""
    wanted = PARTITION - 2 * (CONTEXT + LEASE) - 4 * MIB
    with program(node, **MODES[mode]) as first, program(node) as second:
        number = allocate(first, 40 * MIB)
        assert first.tell("spin") == "ok"
        assert first.tell(f"release {number}") == "ok"
        assert second.allocate(wanted) == OUT_OF_MEMORY
        held = sum(gpu_memory_bytes(node.env))

        assert first.tell(stop) == "ok"

        def is_returned() -> bool:
            return sum(gpu_memory_bytes(node.env)) <= held - 40 * MIB

        wait_for("the return", is_returned, node.folder / "launcher.log", SECONDS)
        allocate(second, wanted)


def test_unused_memory_is_returned_during_a_capture(node: LocalNode) -> None:
    with program(node) as first, program(node) as second:
        hold_unused_memory(first, 50 * MIB)
        assert first.tell("capture") == "ok"
        allocate(second, PARTITION - 2 * (CONTEXT + LEASE))
        assert first.tell("launch") == str(3 << 16)


def fill_all_but_a_lease(p: AllocatingProgram, rest: int) -> None:
    """Let a program hold `rest` bytes, and a lease of `UNUSED` bytes for its next allocations."""
    unused = p.allocate("cuMemAlloc", UNUSED)
    assert p.allocate("cuMemAlloc", rest).startswith("ok")
    assert p.tell(f"release {unused.removeprefix('ok ')}") == "ok"


@pytest.mark.parametrize("kind", [*KINDS_OF_ARENA, "large_module"])
def test_unused_memory_of_the_process_can_be_had_in_every_way(node: LocalNode, kind: str) -> None:
    with allocating_program(node, arena=True) as p:
        fill_all_but_a_lease(p, PARTITION - CONTEXT - UNUSED)
        assert sum(gpu_memory_bytes(node.env)) == PARTITION
        assert p.allocate(kind, COUNT).startswith("ok")


@pytest.mark.parametrize("kind", [*KINDS_OF_ARENA, "large_module"])
def test_own_unused_memory_is_taken_before_that_of_another_process(
    node: LocalNode, kind: str
) -> None:
    with program(node) as other, allocating_program(node, arena=True) as p:
        hold_unused_memory(other, 50 * MIB)
        held = charged_bytes(node, other)
        fill_all_but_a_lease(p, PARTITION - 2 * CONTEXT - held - UNUSED)
        assert sum(gpu_memory_bytes(node.env)) == PARTITION
        assert p.allocate(kind, COUNT).startswith("ok")
        assert charged_bytes(node, other) == held


def test_memory_of_another_process_is_opened_in_unused_memory(node: LocalNode) -> None:
    with allocating_program(node, arena=True) as owner, allocating_program(node, arena=True) as p:
        handle = owner.tell(f"export {COUNT}").removeprefix("ok ")
        fill_all_but_a_lease(p, PARTITION - 2 * CONTEXT - COUNT - UNUSED)
        assert p.tell(f"open {handle}").startswith("ok")


def test_function_gets_its_stacks_in_unused_memory() -> None:
    node = LocalNode(NVIDIA_NULL_DRIVER)
    try:
        with allocating_program(node, arena=True) as p:
            fill_all_but_a_lease(p, (1 << 30) - UNUSED - 8 * MIB)
            assert p.allocate("deep_function", 0).startswith("ok")
    finally:
        node.stop()


def wait_for_own_stream(node: LocalNode, waiting_requests: Path, needed: str) -> None:
    command, env = [str(waiting_requests), needed], node.remote_environment()
    assert " -> 0\n" in subprocess.check_output(command, env=env, text=True, timeout=SECONDS)


@pytest.mark.parametrize("needed", ["library", "mapped", "copied", "changed", "reset"])
def test_request_that_waits_for_a_stream_lets_another_thread_go_on(
    node: LocalNode, compiled: Callable[[str], Path], needed: str
) -> None:
    """The other thread calls with the same object before it ends the wait of the stream."""
    wait_for_own_stream(node, compiled("waiting_requests"), needed)


@pytest.mark.parametrize("needed", ["library", "mapped"])
def test_own_freed_memory_is_awaited_before_another_process_is_asked(
    node: LocalNode, compiled: Callable[[str], Path], needed: str
) -> None:
    with program(node) as other:
        hold_unused_memory(other, 50 * MIB)
        held = charged_bytes(node, other)
        wait_for_own_stream(node, compiled("waiting_requests"), needed)
        assert charged_bytes(node, other) == held


def test_process_that_is_stopped_keeps_its_memory(node: LocalNode) -> None:
    with program(node) as first, program(node) as second:
        hold_unused_memory(first, 50 * MIB)
        first.process.send_signal(signal.SIGSTOP)
        assert second.allocate(PARTITION - 2 * (CONTEXT + LEASE)) == OUT_OF_MEMORY
        allocate(second, PARTITION - 2 * (CONTEXT + LEASE) - 50 * MIB)
        first.process.send_signal(signal.SIGCONT)
        allocate(first, 50 * MIB)


@pytest.mark.parametrize("step", ["before 9", "after 9", "before 10"])
def test_request_that_waits_for_unused_memory_outlives_a_killed_launcher(
    node: LocalNode, step: str
) -> None:
    """The operations are those of LedgerOp: 9 asks for memory, 10 says that all is returned."""
    node.restart(BUSBAR_FAILPOINT_LEDGER=step)
    with program(node) as first, program(node) as second:
        hold_unused_memory(first, 50 * MIB)
        second.send(f"allocate {PARTITION - 2 * (CONTEXT + LEASE)}")
        node.launcher.wait(SECONDS)
        node.restart()
        assert second.line().startswith("ok")
        assert used_bytes(first) == PARTITION - CONTEXT


def test_allocations_of_several_processes_never_exceed_the_partition(node: LocalNode) -> None:
    choose = random.Random(7)
    log = node.folder / "launcher.log"
    with ExitStack() as running:
        held = {running.enter_context(program(node)): list[str]() for _ in range(PROCESSES)}
        for step in range(STEPS):
            p = choose.choice(list(held))
            if step % 20 == 19:
                node.restart()
                p.process.kill()
                del held[p]
            elif held[p] and choose.random() < 0.4:
                assert p.tell(f"release {held[p].pop()}") == "ok"
            elif (answer := p.allocate(choose.randrange(1, 100) * MIB)) != OUT_OF_MEMORY:
                held[p].append(answer.removeprefix("ok "))
            assert sum(gpu_memory_bytes(node.env)) <= PARTITION

    def is_free() -> bool:
        charged = sum(s.memory_bytes for s in node.sessions() if s.state == "running")
        return charged == 0 == sum(gpu_memory_bytes(node.env))

    wait_for("no charge", is_free, log, SECONDS)
