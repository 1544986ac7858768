"""The two ways in which a suite runs: directly on a GPU, and through remoting."""

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
from remoting.cli.run_command import software_gpu_variables
from tests.remoting.node import LocalNode, direct_environment

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
    node = LocalNode(BUSBAR_SOFTGPU_MEMORY_BYTES=str(MEMORY_BYTES))
    node.partitions = tuple(Partition(gpu, MEMORY_BYTES, 100) for gpu in node.gpus)
    node.grant()
    try:
        with renewed_tickets(node):
            yield lambda: node.remote_environment() | software_gpu_variables()
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


SOFTWARE: dict[str, Mode] = {"direct": direct, "remoted": remoted}
NVIDIA: dict[str, Mode] = {"direct": direct_on_nvidia, "remoted": remoted_on_nvidia}
