"""The ways in which a suite runs: directly on a GPU, through remoting, and beside a neighbour."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from nodes.launcher_control import Partition
from remoting.bench.gpu.machine import GpuNode, nvidia_gpu
from remoting.bench.shared_node import SharedNode
from remoting.cli.run_command import software_gpu_variables
from tests.remoting import neighbour
from tests.remoting.node import LocalNode, direct_environment
from tests.suites.suite_failures import BESIDE, REMOTED

MEMORY_BYTES = 4 << 30
"""Memory of each of the two software GPUs; tests of larger arrays are skipped."""

RENEWAL_SECONDS = 60.0
"""Tickets are written again before they expire, as `busbar run` does."""

Environment = Callable[[], dict[str, str]]
Mode = Callable[[], AbstractContextManager[Environment]]


@contextmanager
def direct() -> Iterator[Environment]:
    folder = Path(tempfile.mkdtemp(prefix="busbar-suite-"))
    memory = {"BUSBAR_SOFTGPU_MEMORY_BYTES": str(MEMORY_BYTES)}
    yield lambda: direct_environment(folder) | memory | software_gpu_variables()
    shutil.rmtree(folder)


@contextmanager
def remoted() -> Iterator[Environment]:
    with granted(MEMORY_BYTES, 100) as node:
        yield lambda: node.remote_environment() | software_gpu_variables()


@contextmanager
def beside_a_neighbour() -> Iterator[Environment]:
    """Let a second allocation keep the first GPU busy."""
    memory_bytes = MEMORY_BYTES + neighbour.MEMORY_BYTES
    with granted(memory_bytes, 100 - neighbour.PERCENT) as node, neighbour.busy_while(node):
        yield lambda: node.remote_environment() | software_gpu_variables()


@contextmanager
def granted(gpu_bytes: int, percent: int) -> Iterator[SharedNode]:
    """Start a node with two GPUs, of which an allocation has MEMORY_BYTES and a percentage each."""
    node = SharedNode(BUSBAR_SOFTGPU_MEMORY_BYTES=str(gpu_bytes))
    node.partitions = tuple(Partition(gpu, MEMORY_BYTES, percent) for gpu in node.gpus)
    node.grant()
    try:
        with renewed_tickets(node):
            yield node
    finally:
        node.stop()


@contextmanager
def renewed_tickets(node: LocalNode) -> Iterator[None]:
    """Write the ticket of a node again and again: a test may open a session late."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWAL_SECONDS):
            node.ticket_file()

    thread = threading.Thread(target=renew)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def direct_on_nvidia() -> Iterator[Environment]:
    nvidia_gpu()  # ends the command if there is none
    yield lambda: dict(os.environ)


@contextmanager
def remoted_on_nvidia() -> Iterator[Environment]:
    node = GpuNode(nvidia_gpu())
    try:
        yield node.remote_environment
    finally:
        node.stop()


SOFTWARE: dict[str, Mode] = {
    "direct": direct,
    REMOTED: remoted,
    BESIDE: beside_a_neighbour,
}
NVIDIA: dict[str, Mode] = {"direct": direct_on_nvidia, "remoted": remoted_on_nvidia}
