"""Duration of the placement function: a request for 64 GPUs in a fragmented pool of 10,000."""

from __future__ import annotations

import random
import time
import uuid

from appliance.allocations.placement import GpuCapacity, Placement, Request, place

GPUS, GANG = 10_000, 64


def fragmented_gpus(gpus: int = GPUS) -> list[GpuCapacity]:
    rng = random.Random(1)
    nodes = [uuid.UUID(int=rng.getrandbits(128)) for _ in range(gpus // 8)]
    free = [rng.choice((0, 10, 25, 50, 75, 100)) for _ in range(gpus)]
    return [
        GpuCapacity(
            uuid.UUID(int=rng.getrandbits(128)),
            nodes[i // 8],
            80 << 30,
            free[i],
            (80 << 30) * free[i] // 100,
            True,
            model="NVIDIA A100 80GB",
        )
        for i in range(gpus)
    ]


CAPACITIES = fragmented_gpus()


def measure_placement_ms() -> float:
    """Return the duration of one placement in milliseconds."""
    started = time.perf_counter()
    found = place(CAPACITIES, Request(GANG, percent=50))
    duration = time.perf_counter() - started
    assert isinstance(found, Placement) and len(found.shares) == GANG
    return duration * 1e3
