"""One gang request of 64 on a fragmented pool of ten thousand GPUs: the pure function alone."""

from __future__ import annotations

import random
import time
import uuid

from appliance.allocations.placement import GpuRoom, Placed, Request, place

GPUS, GANG = 10_000, 64


def fragmented(gpus: int = GPUS) -> list[GpuRoom]:
    dice = random.Random(1)
    nodes = [uuid.UUID(int=dice.getrandbits(128)) for _ in range(gpus // 8)]
    free = [dice.choice((0, 10, 25, 50, 75, 100)) for _ in range(gpus)]
    return [
        GpuRoom(
            uuid.UUID(int=dice.getrandbits(128)),
            nodes[i // 8],
            80 << 30,
            free[i],
            (80 << 30) * free[i] // 100,
            True,
            model="NVIDIA A100 80GB",
        )
        for i in range(gpus)
    ]


ROOMS = fragmented()


def placement_ms() -> float:
    begun = time.perf_counter()
    found = place(ROOMS, Request(GANG, percent=50))
    spent = time.perf_counter() - begun
    assert isinstance(found, Placed) and len(found.shares) == GANG
    return spent * 1e3
