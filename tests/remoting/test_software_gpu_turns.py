"""Hostile sessions on a software GPU: the others keep their turns, memory and limits."""

from __future__ import annotations

import errno
import os
import signal
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deploy.supervisor import BUILD, wait_for
from tests.remoting.node import EVENT_SECONDS, LocalNode, gpu_memory_bytes

DEMO = str(BUILD / "demo" / "gpu_demo")
FIRST_DEVICE = 64
WAITING_SINCE = struct.pack("<Q", 1)
"""A place before all others."""


@pytest.fixture
def gpu_node() -> Iterator[LocalNode]:
    node = LocalNode()
    yield node
    node.stop()


@contextmanager
def working(node: LocalNode) -> Iterator[int]:
    """Run a program that uses the GPU without pause and yield the pid of its session server."""
    with subprocess.Popen(
        [DEMO, "work", "1000"],
        env=node.remote_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None and program.stdout.readline() == "working\n"
            (pid,) = (s.pid for s in node.sessions() if s.client_pid == program.pid)
            yield pid
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        finally:
            program.kill()


def run(node: LocalNode, *arguments: str) -> str:
    """Run a program on the GPU and return its output."""
    done = subprocess.run(
        [DEMO, *arguments],
        env=node.remote_environment(),
        capture_output=True,
        text=True,
        timeout=EVENT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def device_mappings(node: LocalNode, pid: int) -> list[list[str]]:
    """Return the lines of maps for files of the software GPUs."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line.split() for line in lines if str(node.folder / "gpu") in line]


def writable_mappings(node: LocalNode, pid: int) -> list[range]:
    """Return the addresses that native code of the session could write."""
    return [
        range(*(int(address, 16) for address in fields[0].split("-")))
        for fields in device_mappings(node, pid)
        if "w" in fields[1]
    ]


def overwrite(node: LocalNode, pid: int) -> None:
    """Fill all files of the software GPUs that the session can write."""
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        for addresses in writable_mappings(node, pid):
            memory.seek(addresses.start)
            memory.write(b"\xff" * len(addresses))


def stop(_: LocalNode, pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def overwrite_and_stop(node: LocalNode, pid: int) -> None:
    overwrite(node, pid)
    stop(node, pid)


@pytest.mark.parametrize("attack", [overwrite, stop, overwrite_and_stop])
def test_session_cannot_stop_the_work_of_others(
    gpu_node: LocalNode, attack: Callable[[LocalNode, int], None]
) -> None:
    with working(gpu_node) as hostile:
        attack(gpu_node, hostile)
        run(gpu_node, "work", "1")


def test_session_that_always_claims_the_next_turn_cannot_stop_the_work_of_others(
    gpu_node: LocalNode,
) -> None:
    ended = threading.Event()

    def lie(pid: int) -> None:
        (page,) = writable_mappings(gpu_node, pid)
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            while not ended.is_set():
                memory.seek(page.start + FIRST_DEVICE)
                memory.write(WAITING_SINCE)

    with working(gpu_node) as hostile:
        thread = threading.Thread(target=lie, args=(hostile,))
        thread.start()
        try:
            run(gpu_node, "work", "1")
        finally:
            ended.set()
            thread.join()


def test_session_cannot_use_up_the_memory_of_others(gpu_node: LocalNode) -> None:
    with working(gpu_node) as hostile:
        overwrite(gpu_node, hostile)
        assert '"error": 2' in run(gpu_node, "exhaust")
        assert run(gpu_node, "memory") != ""
        total = 8 << 30
        assert gpu_memory_bytes(gpu_node.env)[0] <= 2 * total


def test_session_can_write_its_own_page_only(gpu_node: LocalNode) -> None:
    with working(gpu_node) as first, working(gpu_node) as second:
        run(gpu_node, "work", "1")
        pages = [writable_mappings(gpu_node, pid) for pid in (first, second)]
        assert [len(p) for p in pages] == [1, 1]
        files = [
            {fields[5] for fields in device_mappings(gpu_node, pid) if "w" in fields[1]}
            for pid in (first, second)
        ]
        assert files[0].isdisjoint(files[1])


def test_session_cannot_open_a_page_for_writing(gpu_node: LocalNode) -> None:
    """A file that is made shorter would end every process that has mapped it."""
    with working(gpu_node) as pid:
        devices = gpu_node.folder / "gpu"
        paths = [Path(f"/proc/{pid}/root{file}") for file in devices.iterdir()]
        paths += [f for f in Path(f"/proc/{pid}/fd").iterdir() if str(devices) in os.readlink(f)]
        assert len(paths) > 2
        for path in paths:
            with pytest.raises(OSError) as refused:
                os.close(os.open(path, os.O_RDWR))
            assert refused.value.errno == errno.EROFS, path


def test_page_of_an_ended_session_is_removed(gpu_node: LocalNode) -> None:
    devices = gpu_node.folder / "gpu"
    with working(gpu_node) as pid:
        (page,) = (Path(f[5]) for f in device_mappings(gpu_node, pid) if "w" in f[1])
        assert (devices / page.name).exists()
    log = gpu_node.folder / "launcher.log"
    wait_for("the removal", lambda: not (devices / page.name).exists(), log)
