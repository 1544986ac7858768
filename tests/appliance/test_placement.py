"""Properties of placement and defragmentation on random pools, and examples of each policy."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from appliance.allocations import defragment
from appliance.allocations.placement import (
    ComputeMode,
    GpuCapacity,
    NoPlacement,
    PackedGpus,
    Placement,
    Policy,
    Request,
    Share,
    mismatch,
    partition_size,
    place,
)
from appliance.allocations.snapshot import add_shares, subtract_shares
from appliance.pools.partition_memory import share_bytes

GIB, MIB = 1 << 30, 1 << 20


def gpu(
    number: int, node: int = 1, *, free: int = 100, memory: int = 80 * GIB, **more: Any
) -> GpuCapacity:
    return GpuCapacity(
        uuid.UUID(int=number),
        uuid.UUID(int=node),
        memory,
        free,
        memory * free // 100,
        more.pop("usable", True),
        **more,
    )


@st.composite
def pools(draw: st.DrawFn) -> list[GpuCapacity]:
    nodes = draw(st.integers(1, 4))
    gpus = []
    for i in range(draw(st.integers(0, 12))):
        memory, model = draw(
            st.sampled_from([(8 * GIB, "L4"), (24 * GIB, "A10"), (80 * GIB, "H100")])
        )
        usable, labels = (
            draw(st.booleans()),
            draw(st.sampled_from([{}, {"rack": "1"}, {"rack": "2"}])),
        )
        capacity = gpu(
            1000 + i,
            draw(st.integers(1, nodes)),
            free=draw(st.sampled_from([0, 20, 50, 99, 100])),
            memory=memory,
            model=model,
            labels=labels,
            usable=usable,
            unusable_reason="" if usable else "it is cordoned",
            driver_version=(draw(st.integers(500, 600)),),
            context_bytes=draw(st.sampled_from([0, 0, 415 * MIB, 9 * GIB])),
        )
        if draw(st.booleans()):  # partitions that take little memory
            capacity = replace(capacity, free_memory_bytes=memory)
        gpus.append(capacity)
    return gpus


HALF_OF_COMPUTE = replace(gpu(1, free=50), free_memory_bytes=80 * GIB)
HALF_OF_MEMORY = replace(gpu(1), free_memory_bytes=40 * GIB)
MORE_THAN_HALF_OF_COMPUTE = Request(1, percent=51, memory_bytes=GIB)
MORE_THAN_HALF_OF_MEMORY = Request(1, percent=1, memory_bytes=40 * GIB + 1)


requests = st.one_of(
    st.builds(
        Request,
        gpu_count=st.integers(1, 5),
        percent=st.integers(1, 100),
        same_node=st.booleans(),
        model=st.sampled_from(["", "h100", "a"]),
        labels=st.sampled_from([(), (("rack", "1"),)]),
        min_driver_version=st.sampled_from([(), (550,)]),
    ),
    st.builds(
        Request,
        gpu_count=st.integers(1, 3),
        memory_bytes=st.integers(1, 90 * GIB),
        percent=st.sampled_from([0, 0, 30]),
    ),
    st.builds(
        Request,
        gpu_count=st.integers(1, 3),
        percent=st.just(100),
        compute_mode=st.just(ComputeMode.EXCLUSIVE),
    ),
)
chains = st.lists(st.sampled_from(list(Policy)), unique=True, min_size=1)


@given(pools(), requests, chains)
@example([HALF_OF_COMPUTE], MORE_THAN_HALF_OF_COMPUTE, [Policy.PACK])
@example([HALF_OF_COMPUTE], replace(MORE_THAN_HALF_OF_COMPUTE, percent=50), [Policy.PACK])
@example([HALF_OF_MEMORY], MORE_THAN_HALF_OF_MEMORY, [Policy.PACK])
@example([HALF_OF_MEMORY], replace(MORE_THAN_HALF_OF_MEMORY, memory_bytes=40 * GIB), [Policy.PACK])
def test_request_is_placed_exactly_if_it_fits(
    gpus: list[GpuCapacity], request: Request, policies: list[Policy]
) -> None:
    outcome = place(gpus, request, policies)
    sizes = {g.gpu_id: partition_size(g.memory_bytes, request) for g in gpus}
    exclusive = Policy.EXCLUSIVE in policies
    fitting = [
        g
        for g in gpus
        if g.usable
        and not mismatch(g, request)
        and g.free_percent >= sizes[g.gpu_id][0]
        and g.free_memory_bytes >= sizes[g.gpu_id][1]
        and (g.free_percent == 100 or not exclusive)
    ]
    on_one = any(
        sum(g.node_id == n for g in fitting) >= request.gpu_count
        for n in {g.node_id for g in fitting}
    )
    if isinstance(outcome, NoPlacement):
        assert len(fitting) < request.gpu_count or (request.same_node and not on_one), (
            "a request that fits was not placed"
        )
        assert str(request) in outcome.reason
        return
    assert len(outcome.shares) == request.gpu_count == len({s.gpu_id for s in outcome.shares}), (
        "two partitions of one allocation on one GPU"
    )
    assert {s.gpu_id for s in outcome.shares} <= {g.gpu_id for g in fitting}
    assert all((s.compute_percent, s.memory_bytes) == sizes[s.gpu_id] for s in outcome.shares)
    if Policy.MODEL_AFFINITY not in policies:
        assert not on_one or len({s.node_id for s in outcome.shares}) == 1, (
            "spread although one node has enough GPUs"
        )
    assert not request.same_node or len({s.node_id for s in outcome.shares}) == 1


@given(pools(), requests, chains, st.randoms())
def test_placement_is_independent_of_row_order(
    gpus: list[GpuCapacity], request: Request, policies: list[Policy], random: Any
) -> None:
    shuffled = list(gpus)
    random.shuffle(shuffled)
    first, second = place(gpus, request, policies), place(shuffled, request, policies)
    assert first == second or (isinstance(first, NoPlacement) and isinstance(second, NoPlacement))


@given(pools(), requests)
@example([HALF_OF_COMPUTE], MORE_THAN_HALF_OF_COMPUTE)
@example([HALF_OF_MEMORY], MORE_THAN_HALF_OF_MEMORY)
@example(
    [replace(gpu(1, free=20), free_memory_bytes=80 * GIB)], Request(1, memory_bytes=16 * GIB + 1)
)  # its share of compute is 21 %
def test_packed_gpus_give_the_same_placement(gpus: list[GpuCapacity], request: Request) -> None:
    packed = PackedGpus()
    for g in gpus:
        packed.add(g)
    for g in gpus[::3]:
        packed.discard(g)
        packed.add(g)
    assert sorted(packed, key=lambda g: g.rank) == sorted(gpus, key=lambda g: g.rank)
    first, second = place(packed, request), place(gpus, request)
    assert first == second or (isinstance(first, NoPlacement) and isinstance(second, NoPlacement))


def chosen_gpus(gpus: Sequence[GpuCapacity], request: Request, *policies: Policy) -> list[int]:
    outcome = place(gpus, request, policies or (Policy.PACK,))
    assert isinstance(outcome, Placement), outcome
    return [s.gpu_id.int for s in outcome.shares]


def test_policy_prefers_its_gpu() -> None:
    gpus = [
        gpu(1),
        gpu(2, free=40),
        gpu(3, free=30),
        gpu(4, 2, free=60, memory=24 * GIB, model="A10"),
    ]
    assert chosen_gpus(gpus, Request(1, 35), Policy.PACK) == [2]
    assert chosen_gpus(gpus, Request(1, 35), Policy.SPREAD) == [1]
    assert chosen_gpus(gpus, Request(1, 35), Policy.MODEL_AFFINITY, Policy.PACK) == [4], (
        "the small model was not preferred"
    )
    assert chosen_gpus(gpus, Request(1, 35), Policy.EXCLUSIVE, Policy.PACK) == [1], (
        "a GPU in use was shared in an exclusive pool"
    )


def test_later_policy_breaks_ties_of_the_first() -> None:
    gpus = [gpu(1, free=50, memory=24 * GIB), gpu(2, free=100, memory=24 * GIB), gpu(3, free=20)]
    assert chosen_gpus(gpus, Request(1, 10), Policy.MODEL_AFFINITY, Policy.SPREAD) == [2]
    assert chosen_gpus(gpus, Request(1, 10), Policy.MODEL_AFFINITY, Policy.PACK) == [1]


def test_model_affinity_uses_one_model_if_possible() -> None:
    gpus = [
        gpu(1, model="H100"),
        gpu(2, 2, model="H100"),
        gpu(3, model="A10", memory=24 * GIB),
        gpu(4, model="L4", memory=8 * GIB),
    ]
    assert chosen_gpus(gpus, Request(2, 50), Policy.MODEL_AFFINITY) == [1, 2]
    assert len(chosen_gpus(gpus, Request(4, 50), Policy.MODEL_AFFINITY)) == 4, (
        "models were not mixed although no model suffices"
    )


def test_large_request_uses_as_few_nodes_as_possible() -> None:
    gpus = [gpu(i, node) for i, node in ((1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 3))]
    assert set(chosen_gpus(gpus, Request(5, 100))) == {2, 3, 4, 5, 6}


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(1, 100, model="B200"), "are not B200"),
        (Request(1, 100, labels=(("rack", "9"),)), "rack=9"),
        (Request(1, 100, min_driver_version=(999, 1)), "older than 999.1"),
        (Request(1, memory_bytes=200 * GIB), "less than 204800 MiB"),
        (Request(2, 100, same_node=True), "no node has so many free"),
        (Request(3, 100), "usable GPUs (node b is cordoned)"),
        (Request(4, 10), "the pool has 2 usable GPUs (node b is cordoned)."),
        (Request(2, 90), "the most free on one GPU is 100 %"),
    ],
)
def test_reason_names_the_obstacle(request_: Request, reason: str) -> None:
    gpus = [
        gpu(1),
        gpu(2, 2, free=100),
        gpu(3, 3, usable=False, unusable_reason="node b is cordoned"),
    ]
    if request_ == Request(2, 90):
        gpus[1] = gpu(2, 2, free=20)
    outcome = place(gpus, request_)
    assert isinstance(outcome, NoPlacement) and reason in outcome.reason, outcome


@pytest.mark.parametrize(("free", "holders"), [((100, 20), "only 1 GPU"), ((30, 20), "no GPU")])
def test_reason_counts_the_gpus_that_can_hold_the_request(
    free: tuple[int, int], holders: str
) -> None:
    outcome = place([gpu(1, free=free[0]), gpu(2, free=free[1])], Request(2, 90))
    assert isinstance(outcome, NoPlacement)
    assert f"but {holders} can hold it; the most free on one GPU is {free[0]} %" in outcome.reason


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(1, memory_bytes=416 * MIB), ""),
        (Request(1, 100), ""),
        (Request(1, 41), "take 415 MiB for a CUDA context, and the request has 410 MiB"),
        (Request(1, memory_bytes=200 * MIB), "the request has 200 MiB (request at least 416 MiB)"),
        (Request(1, memory_bytes=200 * MIB, model="L4"), "(request at least 416 MiB)"),
        (Request(2, memory_bytes=200 * MIB), "(request at least 416 MiB)"),
    ],
)
@pytest.mark.parametrize("pack", [PackedGpus, list])
def test_partition_without_room_for_a_context_is_not_placed(
    pack: type[list[GpuCapacity]], request_: Request, reason: str
) -> None:
    gpus = [gpu(i, memory=1000 * MIB, model="L4", context_bytes=415 * MIB - 1) for i in (1, 2)]
    outcome = place(pack(gpus), request_)
    assert isinstance(outcome, NoPlacement) == bool(reason)
    assert isinstance(outcome, Placement) or reason in outcome.reason, outcome


def test_partition_is_placed_where_a_context_is_smaller_or_unknown() -> None:
    small = Request(1, memory_bytes=200 * MIB)
    gpus = [gpu(1, context_bytes=415 * MIB), gpu(2, 2, free=50, context_bytes=100 * MIB)]
    assert chosen_gpus(gpus, small) == [2]
    assert chosen_gpus([gpus[0], gpu(3)], small) == [3]


def test_request_in_bytes_gets_proportional_compute() -> None:
    assert partition_size(80 * GIB, Request(1, memory_bytes=8 * GIB)) == (10, 8 * GIB)
    assert partition_size(80 * GIB, Request(1, memory_bytes=8 * GIB + 1)) == (
        11,
        8 * GIB + (2 << 20),
    ), "memory was rounded down"
    assert partition_size(80 * GIB, Request(1, 50, memory_bytes=8 * GIB)) == (50, 8 * GIB)


@st.composite
def used_pools(draw: st.DrawFn) -> tuple[list[GpuCapacity], Mapping[uuid.UUID, list[Share]]]:
    gpus: Sequence[GpuCapacity] = [
        gpu(1 + i, 1 + i // 2, model=draw(st.sampled_from(["H100", "A10"])))
        for i in range(draw(st.integers(1, 8)))
    ]
    shares: dict[uuid.UUID, list[Share]] = {}
    for i in range(draw(st.integers(0, 12))):
        outcome = place(
            gpus,
            Request(draw(st.integers(1, 2)), draw(st.sampled_from([10, 30, 50, 100]))),
            [draw(st.sampled_from([Policy.PACK, Policy.SPREAD]))],
        )
        if isinstance(outcome, Placement):
            shares[uuid.UUID(int=500 + i)] = list(outcome.shares)
            gpus = subtract_shares(gpus, outcome.shares)
    for allocation_id in draw(st.sets(st.sampled_from(sorted(shares)))) if shares else ():
        gpus = add_shares(gpus, shares.pop(allocation_id))
    return list(gpus), shares


@given(used_pools())
def test_defragmentation_plan_frees_gpus_and_overfills_none(
    pool: tuple[list[GpuCapacity], Mapping[uuid.UUID, list[Share]]],
) -> None:
    gpus, shares = pool
    before = {g.gpu_id: g for g in gpus}
    moves = defragment.plan_moves(gpus, shares)
    locations = {(a, s.gpu_id) for a, held in shares.items() for s in held}
    after = dict(before)
    for m in moves:
        source, target = (m.allocation_id, m.from_gpu_id), (m.allocation_id, m.to_gpu_id)
        assert source in locations and target not in locations
        locations = locations - {source} | {target}
        for gpu_id, sign in ((m.from_gpu_id, 1), (m.to_gpu_id, -1)):
            g = after[gpu_id]
            after[gpu_id] = replace(
                g,
                free_percent=g.free_percent + sign * m.compute_percent,
                free_memory_bytes=g.free_memory_bytes + sign * m.memory_bytes,
            )
        assert after[m.from_gpu_id].model == after[m.to_gpu_id].model
    assert all(
        0 <= g.free_percent <= 100 and 0 <= g.free_memory_bytes <= g.memory_bytes
        for g in after.values()
    )
    whole = [sum(g.free_percent == 100 for g in rows.values()) for rows in (before, after)]
    assert whole[1] > whole[0] if moves else whole[1] == whole[0]


def test_two_partly_used_gpus_become_one_full_and_one_empty() -> None:
    gpus = [gpu(1, free=60), gpu(2, free=40)]
    held = {7: (1, 40), 8: (2, 60)}
    shares = {
        uuid.UUID(int=a): [Share(uuid.UUID(int=g), uuid.UUID(int=1), share_bytes(80 * GIB, p), p)]
        for a, (g, p) in held.items()
    }
    moves = defragment.plan_moves(gpus, shares)
    assert [(m.from_gpu_id.int, m.to_gpu_id.int) for m in moves] == [(1, 2)]
