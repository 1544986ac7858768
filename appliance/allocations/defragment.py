"""Which partitions would have to move so that more GPUs are whole again. Pure; a plan, not a deed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from appliance.allocations.placement import WHOLE_PERCENT, GpuRoom, Share


@dataclass(frozen=True, slots=True)
class Move:
    allocation_id: UUID
    from_gpu_id: UUID
    to_gpu_id: UUID
    compute_percent: int
    memory_bytes: int


def plan(rooms: Sequence[GpuRoom], shares: Mapping[UUID, Sequence[Share]]) -> list[Move]:
    """The least used GPUs are emptied into the fullest of the same model that have room; one is emptied whole or left as it is.

    `shares` are those of each allocation. No allocation gets two partitions on one GPU.
    """
    now = {g.gpu_id: g for g in rooms if g.usable}
    on: dict[UUID, dict[UUID, Share]] = {}
    for allocation_id, held in shares.items():
        for s in held:
            on.setdefault(s.gpu_id, {})[allocation_id] = s
    moves: list[Move] = []
    for gpu_id in sorted((g for g in on if g in now), key=lambda g: (-now[g].free_percent, g.int)):
        if moved := emptied(gpu_id, now, on):
            moves += moved
    return moves


def emptied(
    gpu_id: UUID, now: dict[UUID, GpuRoom], on: dict[UUID, dict[UUID, Share]]
) -> list[Move]:
    """Changes `now` and `on` when all of its partitions find a place; otherwise nothing, and an empty list."""
    source, rooms, moves = now[gpu_id], dict(now), list[Move]()
    for allocation_id, s in sorted(
        on[gpu_id].items(), key=lambda item: (-item[1].compute_percent, item[0].int)
    ):
        there = [
            g
            for g in rooms.values()
            if g.gpu_id != gpu_id and g.model == source.model and g.free_percent < WHOLE_PERCENT and allocation_id not in on.get(g.gpu_id, {})
            and g.free_percent >= s.compute_percent and g.free_memory_bytes >= s.memory_bytes
        ]  # fmt: skip
        if not there:
            return []
        best = min(there, key=lambda g: (g.free_percent, g.gpu_id.int))
        rooms[best.gpu_id] = replace(
            best,
            free_percent=best.free_percent - s.compute_percent,
            free_memory_bytes=best.free_memory_bytes - s.memory_bytes,
        )
        moves.append(Move(allocation_id, gpu_id, best.gpu_id, s.compute_percent, s.memory_bytes))
    rooms[gpu_id] = replace(
        source, free_percent=WHOLE_PERCENT, free_memory_bytes=source.memory_bytes
    )
    now.update(rooms)
    for m in moves:
        on.setdefault(m.to_gpu_id, {})[m.allocation_id] = on[gpu_id].pop(m.allocation_id)
    return moves
