"""Which GPUs satisfy a request. Pure: the same input gives the same answer, with reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

GRANULARITY_BYTES = 2 << 20
"""Of device memory; partitions are rounded down to it."""


@dataclass(frozen=True)
class GpuRoom:
    """A GPU and what is left of it."""

    gpu_id: UUID
    node_id: UUID
    memory_bytes: int
    free_percent: int
    free_memory_bytes: int
    usable: bool
    why_not: str = ""


@dataclass(frozen=True)
class Request:
    gpu_count: int
    percent: int


@dataclass(frozen=True)
class Share:
    gpu_id: UUID
    node_id: UUID
    memory_bytes: int
    compute_percent: int


@dataclass(frozen=True)
class Placed:
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Waiting:
    reason: str


def share_bytes(memory_bytes: int, percent: int) -> int:
    return memory_bytes * percent // 100 // GRANULARITY_BYTES * GRANULARITY_BYTES


def fits(gpu: GpuRoom, request: Request) -> bool:
    return gpu.usable and gpu.free_percent >= request.percent and gpu.free_memory_bytes >= share_bytes(gpu.memory_bytes, request.percent)


def place(gpus: Sequence[GpuRoom], request: Request) -> Placed | Waiting:
    """Packs: the fullest GPUs that fit come first, on one node if possible, so that whole GPUs stay whole."""
    candidates = sorted((g for g in gpus if fits(g, request)), key=lambda g: (g.free_percent, str(g.node_id), str(g.gpu_id)))
    if len(candidates) < request.gpu_count:
        return Waiting(explain(gpus, request, len(candidates)))
    for node_id in dict.fromkeys(g.node_id for g in candidates):
        here = [g for g in candidates if g.node_id == node_id]
        if len(here) >= request.gpu_count:
            return placed(here[: request.gpu_count], request)
    return placed(candidates[: request.gpu_count], request)


def placed(chosen: Sequence[GpuRoom], request: Request) -> Placed:
    return Placed(tuple(Share(g.gpu_id, g.node_id, share_bytes(g.memory_bytes, request.percent), request.percent) for g in chosen))


def explain(gpus: Sequence[GpuRoom], request: Request, fitting: int) -> str:
    wanted = f"{request.gpu_count} × {request.percent} %"
    if not gpus:
        return f"{wanted} was asked for, and the pool has no GPU. Add a node."
    unusable = [g for g in gpus if not g.usable]
    if len(gpus) - len(unusable) < request.gpu_count:
        why = f" ({unusable[0].why_not})" if unusable else ""
        return f"{wanted} was asked for, and the pool has {len(gpus) - len(unusable)} usable GPUs{why}."
    most = max(g.free_percent for g in gpus if g.usable)
    return f"{wanted} was asked for; {fitting} GPUs have that much free, the most free on one GPU is {most} %. It starts when an allocation ends."
