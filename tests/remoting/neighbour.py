"""A second allocation that keeps a GPU of a node busy, so that other programs work in turns."""

from __future__ import annotations

import uuid
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


class Neighbour:
    """A program that gives the first GPU of a node work without end, in its own allocation."""

    def __init__(self, node: SharedNode, page: int) -> None:
        self.node, self.page = node, page
        self.allocation_id = node.shares[-1].allocation_id

    def blocks(self) -> int:
        """Return how many blocks of its kernels have run."""
        return completed(self.node)[self.page].blocks

    def others(self) -> set[uuid.UUID]:
        """Return the sessions of other allocations, also those that have ended lately.

        While one of them is open, the neighbour has the GPU in turns only.
        """
        sessions = self.node.sessions()
        return {s.session_id for s in sessions if s.allocation_id != self.allocation_id}

    @contextmanager
    def beside(self) -> Iterator[SharedNode]:
        """Yield the node. Fails unless the neighbour works, and not alone, during the block."""
        before, others = self.blocks(), self.others()
        yield self.node
        assert self.others() - others, "The neighbour had the GPU for itself."
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
