"""Memory that the programs of the kill rounds hold on the GPUs of a node.

A program takes memory up to its size at once. After a shrink it frees what is too much, bit by bit,
or keeps it until its allocation ends. This goes on while the appliance is unreachable.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Sequence

from nodes.launcher_layouts import Holding
from nodes.protocol import fleet_pb2

MIB = 1 << 20
KEEPING_SHARE = 0.3
"""Share of the shrinks after which a program frees nothing."""
LEAST_FREED_BYTES = 256 * MIB

Key = tuple[str, str]
"""Allocation and GPU, in hexadecimal digits."""


class HeldMemory:
    """The memory that each partition of a node holds, as the GPU counts it, and its size."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._order: list[list[Key]] = []
        """The partitions of each grant."""
        self._keeping: set[Key] = set()
        self.sizes: dict[Key, int] = {}
        self.held: dict[Key, int] = {}

    def apply(self, grants: Sequence[fleet_pb2.Grant]) -> None:
        """Set the sizes. Programs with more room take memory, those without a grant end."""
        self._order = [[key_of(g, p) for p in g.partitions] for g in grants]
        sizes = {key_of(g, p): p.memory_bytes for g in grants for p in g.partitions}
        self._keeping &= sizes.keys()
        for key, size in sizes.items():
            if size < self.sizes.get(key, 0):
                keeps = self._rng.random() < KEEPING_SHARE
                (self._keeping.add if keeps else self._keeping.discard)(key)
        self.held = {key: self._held_of(key, size) for key, size in sizes.items()}
        self.sizes = sizes

    def _held_of(self, key: Key, size: int) -> int:
        held = self.held.get(key, 0)
        if held >= size or size == self.sizes.get(key):
            return held
        return size if self._rng.random() < 0.5 else self._rng.randint(held, size)

    def advance(self) -> None:
        """Let a tick pass."""
        for key in self.sizes.keys() - self._keeping:
            if over := self.over_bytes(key):
                freed = max(self._rng.randint(0, over), min(over, LEAST_FREED_BYTES))
                self.held[key] -= freed

    def over_bytes(self, key: Key) -> int:
        return max(0, self.held[key] - self.sizes[key])

    def by_gpu(self) -> Counter[str]:
        """Return the bytes of each GPU that are held, or may be taken at any time."""
        totals: Counter[str] = Counter()
        for key, size in self.sizes.items():
            totals[key[1]] += max(size, self.held[key])
        return totals

    def of_allocation(self, allocation_id: uuid.UUID) -> tuple[int, ...]:
        """Return what the allocation holds, in order of its grant."""
        found = (keys for keys in self._order if keys[0][0] == allocation_id.hex)
        return tuple(self.held[key] for keys in found for key in keys)

    def over(self) -> tuple[Holding, ...]:
        """Return the allocations that hold more than their size, as the launcher does."""
        return tuple(
            Holding(bytes.fromhex(keys[0][0]), tuple(self.held[key] for key in keys))
            for keys in self._order
            if any(map(self.over_bytes, keys))
        )


def key_of(grant: fleet_pb2.Grant, partition: fleet_pb2.Partition) -> Key:
    return grant.allocation_id.hex(), partition.gpu_uuid.hex()
