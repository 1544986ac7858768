"""Resizes on a node: what programs see, what they may allocate, and the launcher's books."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from deploy.supervisor import BUILD, ROOT, wait_for
from nodes.launcher_control import LauncherError, Partition
from tests.remoting.modes import MODES, WITH_ARENAS
from tests.remoting.node import LocalNode, gpu_memory_bytes

MIB = 1 << 20
SMALL, LARGE = 128 * MIB, 1024 * MIB
LEASE = 2 * MIB
"""The smallest one, which holds the first allocations of a program."""
OUT_OF_MEMORY = "error 2"
PROGRAM = [sys.executable, "-m", "tests.remoting.resizing_program"]
SECONDS = 120
STEPS = 80


class Program:
    """A running `resizing_program`."""

    def __init__(self, node: LocalNode, **environment: str) -> None:
        self.process = subprocess.Popen(
            PROGRAM,
            env=node.remote_environment(**environment),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def tell(self, line: str) -> str:
        self.send(line)
        return self.line()

    def sizes(self) -> set[int]:
        """Return the totals that the program sees: one if all agree."""
        return set(map(int, self.tell("sizes").split()))

    def allocate(self, count: int) -> str:
        return self.tell(f"allocate {count}")


@contextmanager
def program(node: LocalNode, **environment: str) -> Iterator[Program]:
    running = Program(node, **environment)
    try:
        yield running
    finally:
        running.process.kill()
        with running.process:
            pass


@pytest.fixture
def node() -> Iterator[LocalNode]:
    found = LocalNode()
    resize(found, SMALL)
    yield found
    found.stop()


def resize(node: LocalNode, memory_bytes: int, percent: int = 50) -> None:
    node.partitions = (Partition(node.gpus[0], memory_bytes, percent),)
    node.grant()


def await_size(p: Program, size: int) -> None:
    wait_for(f"{size} bytes", lambda: p.sizes() == {size}, BUILD, SECONDS)


def over_bytes(node: LocalNode) -> int:
    """Return what the launcher reports to be held, if it is more than the size."""
    over = node.control.sessions().over
    assert over is not None
    return sum(holding.held_bytes[0] for holding in over)


def charged_bytes(node: LocalNode) -> int:
    return sum(sum(s.partition_bytes) for s in node.sessions() if s.state == "running")


def await_equal_books(node: LocalNode) -> int:
    def equal() -> bool:
        return charged_bytes(node) == sum(gpu_memory_bytes(node.env))

    wait_for("equal books", equal, node.folder / "launcher.log", SECONDS)
    return charged_bytes(node)


def await_consistent_books(node: LocalNode, size: int) -> None:
    """Wait until the launcher charges what the GPU holds, and reports it if it exceeds the size."""

    def consistent() -> bool:
        charged = charged_bytes(node)
        over = charged if charged > size else 0
        return charged == sum(gpu_memory_bytes(node.env)) and over_bytes(node) == over

    wait_for("consistent books", consistent, node.folder / "launcher.log", SECONDS)


@pytest.mark.parametrize("mode", MODES)
def test_program_learns_new_sizes_without_reconnecting(node: LocalNode, mode: str) -> None:
    with program(node, **MODES[mode]) as p:
        assert p.sizes() == {SMALL}
        (session,) = [s.session_id for s in node.sessions() if s.state == "running"]
        resize(node, LARGE)
        await_size(p, LARGE)
        resize(node, SMALL)
        await_size(p, SMALL)
        assert [s.session_id for s in node.sessions() if s.state == "running"] == [session]


@pytest.mark.parametrize("mode", MODES)
def test_program_allocates_what_its_partition_has_grown_by(node: LocalNode, mode: str) -> None:
    """The growth exceeds the addresses that the session would need for its first size."""
    with program(node, **MODES[mode]) as p:
        assert p.allocate(2 * SMALL) == OUT_OF_MEMORY
        resize(node, LARGE)
        for _ in range(7):
            assert p.allocate(SMALL).startswith("ok")
        assert await_equal_books(node) >= 7 * SMALL
        assert p.allocate(2 * SMALL) == OUT_OF_MEMORY


@pytest.mark.parametrize("mode", MODES)
def test_shrinking_below_the_use_refuses_allocations_until_memory_is_freed(
    node: LocalNode, mode: str
) -> None:
    resize(node, LARGE)
    with program(node, **MODES[mode]) as p:
        held = [p.allocate(SMALL).removeprefix("ok ") for _ in range(4)]
        assert over_bytes(node) == 0
        resize(node, 3 * SMALL)
        assert over_bytes(node) >= 4 * SMALL
        await_size(p, 3 * SMALL)
        assert p.allocate(SMALL) == OUT_OF_MEMORY, "no memory was added"
        assert await_equal_books(node) >= 4 * SMALL, "no memory was taken away"
        for number in held[:2]:
            assert p.tell(f"release {number}") == "ok"
        p.sizes()
        wait_for("the end", lambda: over_bytes(node) == 0, node.folder / "launcher.log", SECONDS)
        assert await_equal_books(node) <= 3 * SMALL
        assert p.allocate(SMALL // 2).startswith("ok")


@pytest.mark.parametrize("mode", WITH_ARENAS)
def test_unused_lease_is_asked_back_from_a_program_that_makes_no_call(
    node: LocalNode, mode: str
) -> None:
    with program(node, **MODES[mode]) as p:
        number = p.allocate(SMALL // 2).removeprefix("ok ")
        assert p.tell(f"release {number}") == "ok"
        assert await_equal_books(node) == SMALL // 2 + LEASE, "two leases, of which one is unused"
        resize(node, SMALL // 2 + MIB)
        wait_for("the return", lambda: over_bytes(node) == 0, BUILD, SECONDS)
        assert await_equal_books(node) == LEASE
        await_size(p, SMALL // 2 + MIB)


def test_client_that_never_returns_its_leases_is_left_alone(node: LocalNode) -> None:
    """The memory that it keeps is charged to it: no other program of the allocation gets it."""
    held = SMALL // 2 + 2 * LEASE
    with program(node) as p, program(node) as other:
        number = p.allocate(SMALL // 2).removeprefix("ok ")
        assert p.tell(f"release {number}") == "ok"
        p.process.send_signal(signal.SIGSTOP)
        resize(node, SMALL // 4)
        assert over_bytes(node) == held == await_equal_books(node)
        assert other.allocate(2 * LEASE) == OUT_OF_MEMORY
        node.restart()
        assert over_bytes(node) == held == await_equal_books(node)
        p.process.send_signal(signal.SIGCONT)
        wait_for("the return", lambda: over_bytes(node) == 0, BUILD, SECONDS)
        assert await_equal_books(node) == 2 * LEASE
        assert p.allocate(2 * LEASE).startswith("ok")


def test_resize_during_a_capture_leaves_the_graph_intact(node: LocalNode) -> None:
    with program(node) as p:
        assert p.tell("capture") == "ok"
        for size in (LARGE, SMALL, LARGE):
            resize(node, size, percent=size // SMALL * 10)
        assert p.tell("launch") == str(3 << 16)
        await_size(p, LARGE)


def test_ticket_that_was_issued_before_a_resize_is_valid_after_it(node: LocalNode) -> None:
    environment = {"BUSBAR_TICKET_FILE": str(node.ticket_file())}
    resize(node, LARGE, percent=90)
    old = subprocess.Popen(
        PROGRAM,
        env=node.remote_environment() | environment,
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with old:
        assert old.stdout is not None and old.stdin is not None
        assert old.stdout.readline() == "ready\n"
        print("sizes", file=old.stdin, flush=True)
        assert set(old.stdout.readline().split()) == {str(LARGE)}, "the size of the grant counts"
        old.kill()


def test_ticket_for_another_gpu_is_refused(node: LocalNode) -> None:
    granted = node.partitions
    node.partitions = (replace(granted[0], gpu_uuid=node.gpus[1]),)
    environment = node.remote_environment()
    node.partitions = granted
    refused = subprocess.run(
        PROGRAM, env=environment, cwd=ROOT, input="", capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert "GPUs differ from the grant's" in (node.folder / "launcher.log").read_text()


def test_neighbour_keeps_its_size_and_its_memory(node: LocalNode) -> None:
    whole = node.grants()
    neighbour = replace(whole.grants[0], allocation_id=uuid.uuid4())
    allocation, ours = node.allocation_id, node.partitions

    def grant(size: int) -> None:
        changed = replace(ours[0], memory_bytes=size)
        mine = replace(whole.grants[0], partitions=(changed,))
        node.control.apply(replace(node.grants(), grants=(mine, neighbour)))

    grant(SMALL)
    with program(node) as resized:
        node.allocation_id = neighbour.allocation_id
        with program(node) as other:
            node.allocation_id = allocation
            assert other.allocate(SMALL // 2).startswith("ok")
            for size in (LARGE, SMALL, 2 * MIB, LARGE):
                grant(size)
                assert other.sizes() == {SMALL}
                await_size(resized, size)
            assert other.allocate(SMALL) == OUT_OF_MEMORY


def test_books_agree_after_random_resizes(node: LocalNode) -> None:
    choose = random.Random(5)
    held: dict[str, int] = {}
    size = SMALL
    with program(node) as p:
        for _ in range(STEPS):
            action = choose.random()
            if action < 0.3:
                size = choose.randrange(1, 9) * SMALL
                resize(node, size)
            elif held and action < 0.6:
                number = choose.choice(list(held))
                assert p.tell(f"release {number}") == "ok"
                del held[number]
            else:
                before = charged_bytes(node)
                count = choose.randrange(1, 200) * MIB
                answer = p.allocate(count)
                if answer != OUT_OF_MEMORY:
                    held[answer.removeprefix("ok ")] = count
                    assert charged_bytes(node) <= max(size, before)
            await_consistent_books(node, size)


def test_launcher_that_is_killed_goes_on_with_the_same_books(node: LocalNode) -> None:
    resize(node, LARGE)
    with program(node) as p:
        held = [p.allocate(SMALL).removeprefix("ok ") for _ in range(4)]
        resize(node, 3 * SMALL)
        before = over_bytes(node)
        node.restart()
        assert over_bytes(node) == before == await_equal_books(node)
        await_size(p, 3 * SMALL)
        assert p.allocate(SMALL) == OUT_OF_MEMORY
        for number in held:
            assert p.tell(f"release {number}") == "ok"
        wait_for("the end", lambda: over_bytes(node) == 0, node.folder / "launcher.log", SECONDS)


@pytest.mark.parametrize("step", ["stored", "shown"])
def test_launcher_killed_during_a_shrink_does_not_bring_the_larger_size_back(
    node: LocalNode, step: str
) -> None:
    """No agent sends the size again to the next launcher."""
    resize(node, LARGE)
    with program(node) as p:
        await_size(p, LARGE)
        node.restart(BUSBAR_FAILPOINT_GRANTS=step)
        with pytest.raises(LauncherError):
            resize(node, SMALL)
        node.launcher.wait(SECONDS)
        node.restart()
        assert p.allocate(2 * SMALL) == OUT_OF_MEMORY
        await_size(p, SMALL)
        assert await_equal_books(node) <= SMALL


def test_session_that_is_resized_without_a_launcher_sees_the_size_of_the_next(
    node: LocalNode,
) -> None:
    with program(node) as p:
        node.launcher.kill()
        node.launcher.wait()
        assert p.sizes() == {SMALL}
        node.launcher = node._start()
        resize(node, LARGE)
        await_size(p, LARGE)
        assert p.allocate(4 * SMALL).startswith("ok")
