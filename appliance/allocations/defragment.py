"""Plan of partition moves that would empty partly used GPUs. Pure functions.

The plan is only shown: partitions cannot be moved yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from appliance.allocations.placement import WHOLE_PERCENT, GpuCapacity, Share


@dataclass(frozen=True, slots=True)
class Move:
    allocation_id: UUID
    from_gpu_id: UUID
    to_gpu_id: UUID
    compute_percent: int
    memory_bytes: int


def plan_moves(gpus: Sequence[GpuCapacity], shares: Mapping[UUID, Sequence[Share]]) -> list[Move]:
    """Return moves from the least used GPUs to the fullest ones of the same model.

    A GPU is emptied completely or not at all. `shares` maps allocations to their shares. An
    allocation never has two partitions on one GPU.
    """
    current = {g.gpu_id: g for g in gpus if g.usable}
    shares_by_gpu: dict[UUID, dict[UUID, Share]] = {}
    for allocation_id, held in shares.items():
        for s in held:
            shares_by_gpu.setdefault(s.gpu_id, {})[allocation_id] = s
    moves: list[Move] = []
    used = (g for g in shares_by_gpu if g in current)
    for gpu_id in sorted(used, key=lambda g: (-current[g].free_percent, g.int)):
        moves += empty_gpu(gpu_id, current, shares_by_gpu)
    return moves


def empty_gpu(
    gpu_id: UUID,
    current: dict[UUID, GpuCapacity],
    shares_by_gpu: dict[UUID, dict[UUID, Share]],
) -> list[Move]:
    """Return the moves that empty a GPU and apply them to both mappings.

    If a partition fits nowhere, returns an empty list and leaves the mappings unchanged.
    """
    source, gpus, moves = current[gpu_id], dict(current), list[Move]()
    for allocation_id, s in sorted(
        shares_by_gpu[gpu_id].items(), key=lambda item: (-item[1].compute_percent, item[0].int)
    ):
        targets = [
            g
            for g in gpus.values()
            if takes(g, s, source) and allocation_id not in shares_by_gpu.get(g.gpu_id, {})
        ]
        if not targets:
            return []
        best = min(targets, key=lambda g: (g.free_percent, g.gpu_id.int))
        gpus[best.gpu_id] = replace(
            best,
            free_percent=best.free_percent - s.compute_percent,
            free_memory_bytes=best.free_memory_bytes - s.memory_bytes,
        )
        moves.append(Move(allocation_id, gpu_id, best.gpu_id, s.compute_percent, s.memory_bytes))
    gpus[gpu_id] = replace(
        source, free_percent=WHOLE_PERCENT, free_memory_bytes=source.memory_bytes
    )
    current.update(gpus)
    for m in moves:
        shares_by_gpu.setdefault(m.to_gpu_id, {})[m.allocation_id] = shares_by_gpu[gpu_id].pop(
            m.allocation_id
        )
    return moves


def takes(target: GpuCapacity, share: Share, source: GpuCapacity) -> bool:
    """Return whether the target is a partly used GPU of the same model with room for the share."""
    return (
        target.gpu_id != source.gpu_id
        and target.model == source.model
        and share.compute_percent <= target.free_percent < WHOLE_PERCENT
        and share.memory_bytes <= target.free_memory_bytes
    )
