"""Placement is pure, so its rules can be stated and tried on thousands of pools."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from appliance.allocations.placement import GpuRoom, Placed, Request, Waiting, place, share_bytes
from appliance.allocations.queue import advance, in_order

GIB = 1 << 30


@st.composite
def pools(draw: st.DrawFn) -> list[GpuRoom]:
    nodes = [uuid.UUID(int=n) for n in range(1, draw(st.integers(1, 4)) + 1)]
    rooms = []
    for i in range(draw(st.integers(0, 12))):
        memory = draw(st.sampled_from([8, 24, 80])) * GIB
        percent = draw(st.integers(0, 100))
        usable = draw(st.booleans())
        rooms.append(
            GpuRoom(uuid.UUID(int=1000 + i), draw(st.sampled_from(nodes)), memory, percent, memory * percent // 100, usable, "" if usable else "it is cordoned")
        )
    return rooms


requests = st.builds(Request, gpu_count=st.integers(1, 5), percent=st.integers(1, 100))


@given(pools(), requests)
def test_what_is_placed_fits_and_what_fits_is_placed(gpus: list[GpuRoom], request: Request) -> None:
    outcome = place(gpus, request)
    fitting = [g for g in gpus if g.usable and g.free_percent >= request.percent and g.free_memory_bytes >= share_bytes(g.memory_bytes, request.percent)]
    if isinstance(outcome, Waiting):
        assert len(fitting) < request.gpu_count and outcome.reason
        return
    assert len(outcome.shares) == request.gpu_count == len({s.gpu_id for s in outcome.shares}), "two partitions of one allocation on one GPU"
    assert {s.gpu_id for s in outcome.shares} <= {g.gpu_id for g in fitting}
    one_node = any(sum(g.node_id == n for g in fitting) >= request.gpu_count for n in {g.node_id for g in fitting})
    assert not one_node or len({s.node_id for s in outcome.shares}) == 1, "spread although one node had room"


@given(pools(), st.lists(requests, max_size=20))
def test_a_queue_never_gives_more_than_there_is(gpus: list[GpuRoom], wanted: list[Request]) -> None:
    free = {g.gpu_id: [g.free_percent, g.free_memory_bytes] for g in gpus}
    waiting = in_order((uuid.UUID(int=i), datetime(2026, 1, 1, second=i % 60, tzinfo=UTC), r) for i, r in enumerate(wanted))
    for _, outcome in advance(gpus, waiting):
        for share in outcome.shares if isinstance(outcome, Placed) else ():
            free[share.gpu_id][0] -= share.compute_percent
            free[share.gpu_id][1] -= share.memory_bytes
    assert all(percent >= 0 and memory >= 0 for percent, memory in free.values())


def test_it_packs_the_fullest_gpu_first() -> None:
    node = uuid.UUID(int=1)
    gpus = [GpuRoom(uuid.UUID(int=i), node, 8 * GIB, free, 8 * GIB * free // 100, True) for i, free in ((1, 100), (2, 40), (3, 30))]
    outcome = place(gpus, Request(1, 35))
    assert isinstance(outcome, Placed) and outcome.shares[0].gpu_id == uuid.UUID(int=2)


def test_it_says_what_blocks() -> None:
    gpu = GpuRoom(uuid.UUID(int=1), uuid.UUID(int=1), 8 * GIB, 20, 2 * GIB, True)
    outcome = place([gpu], Request(1, 25))
    assert isinstance(outcome, Waiting) and "1 × 25 %" in outcome.reason and "20 %" in outcome.reason
