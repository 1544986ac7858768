"""A second allocation that keeps a GPU of a node busy, so that other programs work in turns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from remoting.bench.gpu.machine import compile_program
from remoting.bench.partitions.tenants import SOURCE, Load, completed, ready
from remoting.bench.shared_node import SharedNode

PERCENT, MEMORY_BYTES = 5, 256 << 20
"""So small a share has turns of 5 ms in place of 10: other programs wait half as long for theirs.
The neighbour has the GPU whenever they have no work."""
LOAD = Load(rounds=100_000)
"""Kernels of some 0.2 ms: a turn has many, and starting them takes little time."""
IN_TURNS = {"turns", "coarse", "sliced"}
"""How the share of a session is enforced while another allocation uses the GPU."""
SAMPLE_SECONDS = 0.02


class Neighbour:
    """A program that gives the first GPU of a node work without end, in its own allocation."""

    def __init__(self, node: SharedNode, page: int) -> None:
        self.node, self.page = node, page
        self.allocation_id = node.shares[-1].allocation_id

    def blocks(self) -> int:
        """Return how many blocks of its kernels have run."""
        return completed(self.node)[self.page].blocks

    def is_held(self) -> bool:
        """Return whether it waits for turns while a session of another allocation is open."""
        running = [s for s in self.node.sessions() if s.state == "running"]
        own = {s.enforcement for s in running if s.allocation_id == self.allocation_id}
        return len(own) < len(running) and own <= IN_TURNS

    @contextmanager
    def beside(self) -> Iterator[SharedNode]:
        """Yield the node. Fails unless the neighbour works, and is held, during the block."""
        before, ended, held = self.blocks(), threading.Event(), threading.Event()

        def look() -> None:
            while not held.is_set() and not ended.wait(SAMPLE_SECONDS):
                if self.is_held():
                    held.set()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield self.node
        finally:
            ended.set()
            thread.join()
        assert held.is_set(), "The neighbour had the GPU for itself."
        assert self.blocks() > before, "The neighbour did no work."


@contextmanager
def busy_neighbour(node: SharedNode) -> Iterator[Neighbour]:
    """Grant an allocation beside that of the node, and run a program in it."""
    env = node.add_share(PERCENT, MEMORY_BYTES * 100 // PERCENT)
    with ready(compile_program(SOURCE, node.folder), env, LOAD):
        (page,) = (page for page, work in completed(node).items() if work.blocks)
        yield Neighbour(node, page)
    node.remove_share()


@contextmanager
def busy_while(node: SharedNode) -> Iterator[None]:
    """Keep the first GPU busy in another allocation. Fails unless both have turns in the block."""
    with busy_neighbour(node) as neighbour, neighbour.beside():
        yield
