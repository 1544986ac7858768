"""The launcher's accounts of device memory: hostile sessions, and launchers that are killed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deploy.supervisor import BUILD, wait_for
from nodes.launcher_control import Partition
from tests.remoting.conftest import PROGRAMS, cuda_include
from tests.remoting.node import NULL_DRIVER, NULL_DRIVER_GPUS, LocalNode

BLOCK = 64 << 20
LIMIT = 16 * BLOCK
RESTARTS = 4
RING = "memfd:busbar-session"
"""The client's shared memory: it is the session's own."""


@pytest.fixture
def null_node() -> Iterator[LocalNode]:
    node = LocalNode(NULL_DRIVER, partitions=[Partition(NULL_DRIVER_GPUS[0], LIMIT, 50)])
    yield node
    node.stop()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the client of these tests."""
    target = tmp_path_factory.mktemp("ledger") / "memory_storm"
    flags = ["-std=c++20", "-O1", "-Wall", "-Werror", "-isystem", str(cuda_include())]
    source = str(PROGRAMS / "memory_storm.cc")
    libraries = [f"-L{BUILD / 'client'}", "-lcuda", "-lpthread"]
    subprocess.run(["g++", *flags, source, "-o", str(target), *libraries], check=True)
    return target


class Client:
    """A running client program, and its conversation with the test."""

    def __init__(self, node: LocalNode, program: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [program, *arguments],
            env=node.remote_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.greeting = self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def post(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("x")
        self.process.stdin.flush()

    def finish_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextmanager
def client(node: LocalNode, program: Path, *arguments: str) -> Iterator[Client]:
    running = Client(node, program, *arguments)
    try:
        yield running
    finally:
        running.process.kill()
        with running.process:
            pass


def server_pids(node: LocalNode) -> list[int]:
    return [s.pid for s in node.sessions() if s.state == "running"]


def charged_bytes(node: LocalNode) -> dict[int, int]:
    """Return what the launcher has charged to each running session, by the pid of its server."""
    return {s.pid: sum(s.partition_bytes) for s in node.sessions() if s.state == "running"}


def device_bytes(pid: int) -> int:
    """Return the device memory of the null driver that a session server has mapped."""
    total = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        if "memfd:null-driver" in line:
            begin, end = line.split()[0].split("-")
            total += int(end, 16) - int(begin, 16)
    return total


def overwrite_mappings(pid: int) -> None:
    """Overwrite all memory that the process shares with others, except that of its client."""
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if line.split()[1][3] != "s" or RING in line or "/dev/" in line:
                continue
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            memory.seek(begin)
            with suppress(OSError):  # it cannot be written
                memory.write(b"\xff" * (end - begin))


def overwrite_descriptors(pid: int) -> None:
    """Write through every descriptor of the process that permits it, and shorten the file."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = str(entry.readlink())
            if RING in target or target.endswith(".log") or not entry.is_file():
                continue
            descriptor = os.open(entry, os.O_RDWR)
            with suppress(OSError):
                os.pwrite(descriptor, b"\xff" * 4096, 0)
            with suppress(OSError):
                os.ftruncate(descriptor, 1)
            os.close(descriptor)


@pytest.mark.parametrize("attack", [overwrite_mappings, overwrite_descriptors])
def test_session_that_overwrites_what_it_can_map_changes_no_account(
    null_node: LocalNode, program: Path, attack: Callable[[int], None]
) -> None:
    with client(null_node, program, "hold", str(4 * BLOCK)):
        (hostile,) = server_pids(null_node)
        attack(hostile)
        null_node.grant()
        assert charged_bytes(null_node) == {hostile: 4 * BLOCK}
        with client(null_node, program, "fill") as other:
            assert other.greeting == "ready 12"


def test_ledger_is_private_to_the_launcher(null_node: LocalNode, program: Path) -> None:
    ledger = null_node.runtime / "ledgers" / null_node.allocation_id.hex
    with client(null_node, program, "hold", str(BLOCK)):
        (pid,) = server_pids(null_node)
        opened = [os.readlink(f) for f in Path(f"/proc/{pid}/fd").iterdir()]
        assert str(ledger) not in Path(f"/proc/{pid}/maps").read_text()
        assert str(ledger) not in opened
        assert ledger.stat().st_mode & 0o777 == 0o600


def test_launcher_killed_during_allocations_leaves_exact_totals(
    null_node: LocalNode, program: Path
) -> None:
    with (
        client(null_node, program, "storm", "1") as first,
        client(null_node, program, "storm", "2") as second,
        client(null_node, program, "storm", "3") as third,
    ):
        clients = (first, second, third)
        for _ in range(RESTARTS):
            for c in clients:
                c.post()
            null_node.restart()
            assert [c.line() for c in clients] == ["tick"] * 3
        for c in clients:
            c.finish_input()
        assert [c.line() for c in clients] == ["done"] * 3
        used = {pid: device_bytes(pid) for pid in server_pids(null_node)}
        log = null_node.folder / "launcher.log"
        wait_for("equal totals", lambda: charged_bytes(null_node) == used, log)
        assert sum(used.values()) >= 6 * BLOCK
        null_node.restart()
        assert charged_bytes(null_node) == used
        with client(null_node, program, "fill") as other:
            assert other.greeting == f"ready {(LIMIT - sum(used.values())) // BLOCK}"


def test_program_works_beside_an_allocation_that_waits_for_the_launcher(
    null_node: LocalNode, program: Path
) -> None:
    with client(null_node, program, "beside") as c:
        null_node.launcher.kill()
        null_node.launcher.wait()
        c.post()
        assert c.line() == "working"
        null_node.restart()
        assert c.line() == "allocated"


def test_charges_of_a_killed_session_are_released(null_node: LocalNode, program: Path) -> None:
    for _ in range(3):
        with client(null_node, program, "fill") as c:
            assert c.greeting == "ready 16"
            for pid in server_pids(null_node):
                with suppress(ProcessLookupError):  # of an earlier round
                    os.kill(pid, 9)


def test_charges_of_a_session_that_ends_without_a_launcher_are_released(
    null_node: LocalNode, program: Path
) -> None:
    with client(null_node, program, "fill"):
        (pid,) = server_pids(null_node)
        null_node.launcher.kill()
        null_node.launcher.wait()
        os.kill(pid, 9)
    null_node.restart()
    with client(null_node, program, "fill") as other:
        assert other.greeting == "ready 16"
