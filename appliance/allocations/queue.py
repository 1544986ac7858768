"""The order in which waiting requests are tried. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from appliance.allocations.placement import GpuRoom, Placed, Request, Waiting, place


def in_order(waiting: Iterable[tuple[UUID, datetime, Request]]) -> list[tuple[UUID, Request]]:
    """Oldest first; a small request may start while a large one waits."""
    return [(id_, request) for id_, _, request in sorted(waiting, key=lambda w: (w[1], str(w[0])))]


def advance(gpus: Sequence[GpuRoom], waiting: Iterable[tuple[UUID, Request]]) -> Iterator[tuple[UUID, Placed | Waiting]]:
    """Each request with its outcome; a placed one takes its room from those behind it."""
    rooms = {g.gpu_id: g for g in gpus}
    for allocation_id, request in waiting:
        outcome = place(list(rooms.values()), request)
        if isinstance(outcome, Placed):
            for share in outcome.shares:
                room = rooms[share.gpu_id]
                rooms[share.gpu_id] = replace(
                    room, free_percent=room.free_percent - share.compute_percent, free_memory_bytes=room.free_memory_bytes - share.memory_bytes
                )
        yield allocation_id, outcome
