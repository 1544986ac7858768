"""Sizes of partitions before and after a resize. Pure functions.

A partition that shrinks below its use occupies the difference until its node reports less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from appliance.allocations.placement import (
    GpuCapacity,
    NoPlacement,
    Placement,
    Request,
    Share,
    partition_size,
)


class Sized(Protocol):
    """A partition with the memory of its GPU."""

    @property
    def memory_bytes(self) -> int: ...
    @property
    def compute_percent(self) -> int: ...
    @property
    def gpu_memory_bytes(self) -> int: ...


class SizedPartition(NamedTuple):
    """Columns of a partition and its GPU; the fields are Django lookups."""

    pk: UUID
    allocation_id: UUID
    gpu_id: UUID
    gpu__node_id: UUID
    memory_bytes: int
    over_bytes: int
    compute_percent: int
    gpu__memory_bytes: int
    gpu__context_bytes: int
    gpu__node__resizes_allocations: bool

    @property
    def node_id(self) -> UUID:
        return self.gpu__node_id

    @property
    def gpu_memory_bytes(self) -> int:
        return self.gpu__memory_bytes

    @property
    def occupied_bytes(self) -> int:
        return self.memory_bytes + self.over_bytes

    def occupied(self) -> Share:
        return self.share(self.occupied_bytes, self.compute_percent)

    def share(self, memory_bytes: int, percent: int) -> Share:
        return Share(self.gpu_id, self.node_id, memory_bytes, percent, self.gpu__memory_bytes)

    def size_for(self, request: Request) -> tuple[int, int]:
        """Return the percent of compute and the bytes that the request needs on this GPU."""
        return partition_size(self.gpu__memory_bytes, request)


def growth(partitions: Sequence[SizedPartition], request: Request) -> tuple[Share, ...]:
    """Return what the request adds to each partition.

    Compute that is given back is negative. Memory is never: the node reports when it is free.
    """
    sizes = [p.size_for(request) for p in partitions]
    return tuple(
        Share(p.gpu_id, p.node_id, max(0, memory - p.occupied_bytes), percent - p.compute_percent)
        for p, (percent, memory) in zip(partitions, sizes, strict=True)
    )


def growth_percent(partitions: Sequence[SizedPartition], request: Request) -> int:
    """Return what the request adds to the size that counts for quotas."""
    sizes = [p.size_for(request) for p in partitions]
    return sum(
        p.share(max(memory, p.occupied_bytes), percent).size_percent - p.occupied().size_percent
        for p, (percent, memory) in zip(partitions, sizes, strict=True)
    )


def is_granted(partitions: Sequence[SizedPartition], request: Request) -> bool:
    """Return whether the partitions have the requested size already."""
    return all(p.size_for(request) == (p.compute_percent, p.memory_bytes) for p in partitions)


def can_grow(partitions: Sequence[SizedPartition]) -> bool:
    """Return whether all nodes of an allocation can resize it."""
    return bool(partitions) and all(p.gpu__node__resizes_allocations for p in partitions)


def whole(partitions: Sequence[SizedPartition], request: Request) -> Placement:
    """Return the shares that the partitions have after the resize."""
    sizes = [p.size_for(request) for p in partitions]
    return Placement(
        tuple(
            p.share(memory, percent) for p, (percent, memory) in zip(partitions, sizes, strict=True)
        )
    )


def needs_capacity(added: Sequence[Share]) -> bool:
    return any(s.compute_percent > 0 or s.memory_bytes > 0 for s in added)


def place_growth(gpus: Sequence[GpuCapacity], added: Sequence[Share]) -> Placement | NoPlacement:
    """Return the growth as a placement if each of its GPUs has the capacity, or the reason."""
    wanted = {s.gpu_id: s for s in added}
    found = {g.gpu_id: g for g in gpus if g.gpu_id in wanted}
    for s in added:
        gpu = found.get(s.gpu_id)
        if gpu is None:
            return NoPlacement("One of its GPUs has left the pool. The allocation keeps its size.")
        if not gpu.usable:
            return NoPlacement(f"The allocation cannot grow: {gpu.unusable_reason}.")
        if gpu.free_percent < s.compute_percent or gpu.free_memory_bytes < s.memory_bytes:
            return NoPlacement(
                explain_growth(gpu, s, "one of its GPUs" if len(added) > 1 else "its GPU")
            )
    return Placement(tuple(added))


def explain_growth(gpu: GpuCapacity, added: Share, name: str) -> str:
    return (
        f"The resize adds {describe(added.compute_percent, added.memory_bytes)}, but {name} has "
        f"{describe(gpu.free_percent, gpu.free_memory_bytes)} free. The allocation keeps its size "
        "until other allocations end or shrink."
    )


def describe(percent: int, memory_bytes: int) -> str:
    return f"{max(percent, 0)} % and {memory_bytes >> 20} MiB"
