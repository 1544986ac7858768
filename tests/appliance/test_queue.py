"""Scheduling decisions: properties on random fleets, and examples of each rule."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.allocations import queue
from appliance.allocations.forecast import alternatives, expected_start
from appliance.allocations.placement import GpuCapacity, Placement, Request, place
from appliance.allocations.snapshot import (
    ActiveAllocation,
    ActiveAllocations,
    Entitlement,
    PendingAllocation,
    PoolCapacity,
    Reservation,
    SchedulerSnapshot,
    Start,
    Subject,
    Wait,
    WaitingRule,
    subtract_shares,
)
from appliance.pools.subject_kind import SubjectKind
from tests.appliance.test_placement import gpu

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
POOL, OTHER = uuid.UUID(int=50), uuid.UUID(int=51)
RED, BLUE = uuid.UUID(int=60), uuid.UUID(int=61)


def project(id_: uuid.UUID) -> Subject:
    return Subject(SubjectKind.PROJECT, id_)


def pending(
    number: int, request: Request, project_id: uuid.UUID = RED, **more: Any
) -> PendingAllocation:
    values: dict[str, Any] = {
        "pools": (POOL,),
        "subjects": (
            project(project_id),
            Subject(SubjectKind.USER, uuid.UUID(int=70 + project_id.int)),
        ),
        "priority": 50,
        "preemptible": True,
        "created_at": NOW - timedelta(minutes=1),
    }
    return PendingAllocation(
        uuid.UUID(int=number), request, project_id=project_id, **(values | more)
    )


def snapshot(
    gpus: list[GpuCapacity],
    active: list[ActiveAllocation] | None = None,
    entitlements: dict[Subject, Entitlement] | None = None,
    **more: Any,
) -> SchedulerSnapshot:
    free = subtract_shares(gpus, (s for a in active or [] for s in a.shares))
    return SchedulerSnapshot(
        NOW,
        {POOL: PoolCapacity("pool", free)},
        ActiveAllocations(active or []),
        entitlements or {},
        **more,
    )


def running(
    number: int,
    gpus: list[GpuCapacity],
    request: Request,
    project_id: uuid.UUID = BLUE,
    taken: list[ActiveAllocation] | None = None,
    **more: Any,
) -> ActiveAllocation:
    outcome = place(subtract_shares(gpus, (s for a in taken or [] for s in a.shares)), request)
    assert isinstance(outcome, Placement)
    values: dict[str, Any] = {
        "priority": 50,
        "preemptible": True,
        "started_at": NOW - timedelta(hours=1),
    }
    return ActiveAllocation(
        uuid.UUID(int=number),
        POOL,
        outcome.shares,
        (project(project_id),),
        project_id,
        **(values | more),
    )


def decide(state: SchedulerSnapshot, *queued: PendingAllocation) -> dict[int, Start | Wait]:
    return {i.int: decision for i, decision in queue.decide(state, queued)}


def rule(outcome: Start | Wait) -> WaitingRule | None:
    return outcome.rule if isinstance(outcome, Wait) else None


# ---- properties ----


def draw_entitlement(draw: st.DrawFn, project_id: uuid.UUID) -> Entitlement:
    return Entitlement(
        f"p{project_id.int}",
        draw(st.sampled_from([None, 0, 100, 230])),
        draw(st.sampled_from([None, 150, 400])),
        draw(st.booleans()),
        draw(st.sampled_from([0.5, 1.0, 3.0])),
    )


@st.composite
def fleets(draw: st.DrawFn) -> tuple[SchedulerSnapshot, list[PendingAllocation], list[GpuCapacity]]:
    gpus = [gpu(1 + i, 1 + i // 4) for i in range(draw(st.integers(1, 6)))]
    sizes = st.builds(
        Request, gpu_count=st.integers(1, 3), percent=st.sampled_from([10, 30, 50, 100])
    )
    free, active = list(gpus), list[ActiveAllocation]()
    for i in range(draw(st.integers(0, 6))):
        request = draw(sizes)
        if isinstance(place(free, request), Placement):
            more: dict[str, Any] = {
                "project_id": draw(st.sampled_from([RED, BLUE])),
                "priority": draw(st.integers(0, 100)),
                "preemptible": draw(st.booleans()),
                "started_at": NOW - timedelta(minutes=i),
                "leaving": draw(st.booleans()),
            }
            active.append(running(200 + i, gpus, request, taken=active, **more))
            free = subtract_shares(free, active[-1].shares)
    entitlements = {project(p): draw_entitlement(draw, p) for p in (RED, BLUE)}
    queued = [
        pending(
            300 + i,
            draw(sizes),
            draw(st.sampled_from([RED, BLUE])),
            priority=draw(st.sampled_from([10, 50, 90])),
            preemptible=draw(st.booleans()),
            created_at=NOW - timedelta(minutes=draw(st.integers(0, 30))),
        )
        for i in range(draw(st.integers(0, 8)))
    ]
    return snapshot(gpus, active, entitlements), queued, gpus


def check_decisions(state: SchedulerSnapshot, queued: list[PendingAllocation]) -> None:
    """Run the scheduler and check capacity, limits, quotas and the choice of victims."""
    use, fixed = dict(state.use), dict(state.active.non_preemptible_use)
    present, free = dict(state.active), list(state.pools[POOL].gpus)
    by_id = {p.allocation_id: p for p in queued}
    outcomes = dict(queue.decide(state, queued))
    assert outcomes.keys() == by_id.keys(), "a request has no decision"
    started = list[PendingAllocation]()
    for allocation_id, outcome in outcomes.items():
        request = by_id[allocation_id]
        if isinstance(outcome, Start):
            free = subtract_shares(free, outcome.placement.shares)
            size = sum(s.compute_percent for s in outcome.placement.shares)
            started.append(request)
            for subject in request.subjects:
                use[subject] = use.get(subject, 0) + size
                fixed[subject] = fixed.get(subject, 0) + (0 if request.preemptible else size)
            continue
        assert outcome.reason
        victims = [present[v] for v in outcome.evictions]
        assert all(v.preemptible and not v.leaving for v in victims), (
            "a non-preemptible or leaving allocation was evicted"
        )
        assert all(
            v.project_id != request.project_id or v.priority < request.priority for v in victims
        ), "an allocation of equal priority was evicted"
    assert all(g.free_percent >= 0 and g.free_memory_bytes >= 0 for g in free), "overcommitted"
    for request in started:
        for subject in request.subjects:
            e = state.entitlements.get(subject)
            if e is None:
                continue
            assert e.limit_percent is None or use[subject] <= e.limit_percent, "over the limit"
            if e.quota_percent is not None and not e.borrows:
                assert use[subject] <= e.quota_percent, "borrowed although not allowed"
            if e.quota_percent is not None and not request.preemptible:
                assert fixed[subject] <= e.quota_percent, "non-preemptible use over the quota"


@given(fleets())
@settings(max_examples=300)
def test_decisions_respect_capacity_limits_and_quotas(
    fleet: tuple[SchedulerSnapshot, list[PendingAllocation], list[GpuCapacity]],
) -> None:
    check_decisions(*fleet[:2])


def test_check_detects_ignored_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "check_limits", lambda *_: None)
    state = snapshot(
        [gpu(1), gpu(2)], entitlements={project(RED): Entitlement("red", limit_percent=100)}
    )
    with pytest.raises(AssertionError, match="over the limit"):
        check_decisions(state, [pending(300, Request(2, 100))])


# ---- order ----


def test_order_is_priority_then_least_past_use_then_age() -> None:
    gpus = [gpu(1)]
    urgent, early = (
        pending(1, Request(1, 100), priority=90),
        pending(2, Request(1, 100), created_at=NOW - timedelta(hours=1)),
    )
    assert isinstance(decide(snapshot(gpus), early, urgent)[1], Start)
    modest, greedy = (
        pending(3, Request(1, 100), RED),
        pending(4, Request(1, 100), BLUE, created_at=NOW - timedelta(hours=1)),
    )
    assert isinstance(decide(snapshot(gpus, past_use={BLUE: 500.0}), modest, greedy)[3], Start), (
        "past use was ignored"
    )
    heavy = {project(BLUE): Entitlement("blue", weight=10.0)}
    assert isinstance(
        decide(
            snapshot(gpus, entitlements=heavy, past_use={BLUE: 500.0, RED: 100.0}), modest, greedy
        )[4],
        Start,
    ), "the weight was ignored"


def test_small_request_passes_a_large_one_that_has_not_waited_long() -> None:
    gpus = [gpu(1), gpu(2)]
    held = running(9, gpus, Request(1, 50), preemptible=False)
    large, small = pending(1, Request(2, 100)), pending(2, Request(1, 30), BLUE)
    assert isinstance(decide(snapshot(gpus, [held]), large, small)[2], Start)
    patient = replace(large, created_at=NOW - timedelta(minutes=11))
    assert rule(decide(snapshot(gpus, [held]), patient, small)[2]) is WaitingRule.AHEAD
    other = replace(patient, request=Request(2, 100, model="nothing here"))
    assert isinstance(decide(snapshot(gpus, [held]), other, small)[2], Start), (
        "GPUs were kept for a request that cannot use them"
    )


def test_second_pool_is_used_when_the_first_is_full() -> None:
    state = snapshot([gpu(1, free=10)])
    state.pools[OTHER] = PoolCapacity("other", [gpu(2)])
    outcome = decide(state, pending(1, Request(1, 50), pools=(POOL, OTHER)))[1]
    assert isinstance(outcome, Start) and outcome.pool_id == OTHER


# ---- quotas, limits, preemption ----


def test_limit_in_fractions_is_enforced_and_named() -> None:
    state = snapshot(
        [gpu(i) for i in range(1, 5)],
        entitlements={project(RED): Entitlement("red", limit_percent=230)},
    )
    outcomes = decide(
        state, pending(1, Request(2, 100)), pending(2, Request(1, 30)), pending(3, Request(1, 10))
    )
    blocked = [o for o in outcomes.values() if isinstance(o, Wait)]
    assert (
        len(blocked) == 1
        and blocked[0].rule is WaitingRule.LIMIT
        and "project red is 2.3 GPUs" in blocked[0].reason
    )


def test_non_preemptible_request_stays_within_the_quota() -> None:
    state = snapshot(
        [gpu(1), gpu(2)], entitlements={project(RED): Entitlement("red", quota_percent=100)}
    )
    assert (
        rule(decide(state, pending(1, Request(2, 100), preemptible=False))[1]) is WaitingRule.QUOTA
    )
    assert isinstance(decide(state, pending(1, Request(2, 100)))[1], Start), (
        "a preemptible request may borrow"
    )


def test_borrowed_capacity_is_reclaimed_for_a_request_within_its_quota() -> None:
    gpus = [gpu(1), gpu(2)]
    first = running(8, gpus, Request(1, 100))
    second = running(9, gpus, Request(1, 100), taken=[first], started_at=NOW - timedelta(minutes=1))
    entitlements = {
        project(RED): Entitlement("red", quota_percent=100),
        project(BLUE): Entitlement("blue", quota_percent=100),
    }
    outcome = decide(snapshot(gpus, [first, second], entitlements), pending(1, Request(1, 100)))[1]
    assert (
        isinstance(outcome, Wait)
        and outcome.rule is WaitingRule.RECLAIM
        and [v.int for v in outcome.evictions] == [9]
    ), "the youngest borrower is evicted"
    told = snapshot(gpus, [replace(first, noticed=True), second], entitlements)
    outcome = decide(told, pending(1, Request(1, 100)))[1]
    assert isinstance(outcome, Wait) and [v.int for v in outcome.evictions] == [8], (
        "a notice moved to another borrower"
    )
    leaving = replace(second, leaving=True)
    outcome = decide(snapshot(gpus, [first, leaving], entitlements), pending(1, Request(1, 100)))[1]
    assert (
        isinstance(outcome, Wait) and outcome.rule is WaitingRule.RECLAIM and not outcome.evictions
    ), "more allocations were evicted than needed"
    beyond = decide(snapshot(gpus, [first, second], entitlements), pending(1, Request(2, 100)))[1]
    assert rule(beyond) is WaitingRule.CAPACITY, "a request beyond its quota evicted others"


@pytest.mark.parametrize("change", [{"preemptible": False}, {"priority": 50}])
def test_only_lower_priority_and_preemptible_allocations_of_a_project_are_evicted(
    change: dict[str, Any],
) -> None:
    gpus = [gpu(1)]
    held = running(9, gpus, Request(1, 100), RED, priority=10)
    urgent = pending(1, Request(1, 100), priority=50)
    outcome = decide(snapshot(gpus, [held]), urgent)[1]
    assert isinstance(outcome, Wait) and [v.int for v in outcome.evictions] == [9]
    assert (
        rule(decide(snapshot(gpus, [replace(held, **change)]), urgent)[1]) is WaitingRule.CAPACITY
    )


def test_allocation_is_not_reclaimed_while_the_quota_of_its_project_is_unreadable() -> None:
    gpus = [gpu(1)]
    held = running(9, gpus, Request(1, 100))
    entitlements = {
        project(RED): Entitlement("red", quota_percent=100),
        project(BLUE): Entitlement("", unreadable=True),
    }
    request = pending(1, Request(1, 100))
    assert rule(decide(snapshot(gpus, [held], entitlements), request)[1]) is WaitingRule.CAPACITY


def test_fewest_allocations_are_evicted() -> None:
    gpus = [gpu(1), gpu(2, 2)]
    small = running(7, gpus, Request(1, 30), RED, priority=1)
    large = running(8, gpus, Request(1, 100), RED, taken=[small], priority=2)
    outcome = decide(snapshot(gpus, [small, large]), pending(1, Request(1, 100)))[1]
    assert isinstance(outcome, Wait) and len(outcome.evictions) == 1


# ---- reservations ----

RESERVED = Reservation(
    uuid.UUID(int=90),
    "course",
    POOL,
    BLUE,
    Request(1, 100),
    NOW + timedelta(hours=1),
    NOW + timedelta(hours=3),
)


def test_reservation_keeps_gpus_from_allocations_that_outlast_its_start() -> None:
    def at(now: datetime) -> SchedulerSnapshot:
        return replace(snapshot([gpu(1)], reservations=[RESERVED]), now=now)

    stays, brief = (
        pending(1, Request(1, 50), preemptible=False),
        pending(1, Request(1, 50), preemptible=False, lifetime=timedelta(minutes=50)),
    )
    assert rule(decide(at(NOW), stays)[1]) is WaitingRule.RESERVATION
    assert isinstance(decide(at(NOW), brief)[1], Start), (
        "an allocation that ends before was kept out"
    )
    assert isinstance(decide(at(NOW), replace(stays, preemptible=True))[1], Start), (
        "a preemptible allocation was kept out"
    )
    begun = NOW + timedelta(hours=2)
    assert rule(decide(at(begun), replace(stays, preemptible=True))[1]) is WaitingRule.RESERVATION
    assert isinstance(decide(at(begun), replace(stays, reservation_id=RESERVED.id))[1], Start), (
        "its own project was kept out"
    )
    assert isinstance(decide(at(NOW + timedelta(hours=4)), stays)[1], Start), (
        "an ended reservation was enforced"
    )


def test_started_reservation_preempts_up_to_its_size() -> None:
    gpus, begun = [gpu(1), gpu(2)], replace(RESERVED, starts_at=NOW - timedelta(minutes=1))
    first = running(8, gpus, Request(1, 100), RED)
    second = running(
        9, gpus, Request(1, 100), RED, taken=[first], started_at=NOW - timedelta(minutes=2)
    )
    asked = pending(1, Request(1, 100), BLUE, reservation_id=begun.id)
    outcome = decide(snapshot(gpus, [first, second], reservations=[begun]), asked)[1]
    assert isinstance(outcome, Wait) and [v.int for v in outcome.evictions] == [9]
    assert (
        rule(
            decide(
                snapshot(
                    gpus,
                    [replace(first, preemptible=False), replace(second, preemptible=False)],
                    reservations=[begun],
                ),
                asked,
            )[1]
        )
        is WaitingRule.CAPACITY
    )
    assert (
        rule(
            decide(
                snapshot(gpus, [first, second], reservations=[begun]),
                replace(asked, request=Request(2, 100)),
            )[1]
        )
        is WaitingRule.CAPACITY
    ), "more was preempted than reserved"
    assert (
        rule(decide(snapshot(gpus, [first, second], reservations=[RESERVED]), asked)[1])
        is WaitingRule.CAPACITY
    ), "allocations were evicted before the reservation starts"


def test_reservation_keeps_as_many_gpus_as_match() -> None:
    all_eight = replace(RESERVED, request=Request(8, 100), starts_at=NOW - timedelta(minutes=1))
    matching = [gpu(i) for i in range(1, 7)]
    gpus = [*matching, *(replace(gpu(i), context_bytes=gpu(i).memory_bytes) for i in (7, 8))]
    asked = pending(1, Request(1, 50))

    def decided(gpus: list[GpuCapacity], used: int) -> Start | Wait:
        own = Request(used, 100)
        held = [running(9, matching, own, reservation_id=all_eight.id)] if used else []
        return decide(snapshot(gpus, held, reservations=[all_eight]), asked)[1]

    for registered in (gpus, matching):
        for used in (0, 5):
            outcome = decided(registered, used)
            assert isinstance(outcome, Wait) and outcome.rule is WaitingRule.RESERVATION
            assert f"{6 - used} × 100 % are kept" in outcome.reason


def test_reservation_that_uses_all_gpus_that_match_keeps_no_other() -> None:
    two = replace(RESERVED, request=Request(2, 10), starts_at=NOW - timedelta(minutes=1))
    own = running(9, [gpu(1)], Request(1, 100), reservation_id=two.id)
    small = replace(gpu(2), context_bytes=gpu(2).memory_bytes // 5)
    state = snapshot([gpu(1), small], [own], reservations=[two])
    assert isinstance(decide(state, pending(1, Request(1, 100)))[1], Start)


def test_reservation_keeps_what_fits_beside_its_own_share() -> None:
    halves = replace(RESERVED, request=Request(2, 50), starts_at=NOW - timedelta(minutes=1))
    own = running(9, [gpu(1)], Request(1, 50), reservation_id=halves.id)
    state = snapshot([gpu(1)], [own], reservations=[halves])
    assert isinstance(decide(state, pending(1, Request(1, 50)))[1], Wait)


def test_reservation_that_no_gpu_matches_is_ignored() -> None:
    begun = replace(RESERVED, starts_at=NOW - timedelta(minutes=1))
    small = replace(gpu(1), context_bytes=gpu(1).memory_bytes // 10)
    reserved = replace(begun, request=Request(1, 10))
    outcome = decide(snapshot([small], reservations=[reserved]), pending(1, Request(1, 50)))[1]
    assert isinstance(outcome, Start)


# ---- forecasts ----


def test_expected_start_includes_earlier_requests() -> None:
    gpus = [gpu(1)]
    held = running(9, gpus, Request(1, 100), preemptible=False, ends_at=NOW + timedelta(minutes=30))
    ahead = pending(1, Request(1, 100), priority=90, lifetime=timedelta(hours=2))
    mine = pending(2, Request(1, 100))
    assert expected_start(snapshot(gpus, [held]), [mine], mine.allocation_id) == NOW + timedelta(
        minutes=30
    )
    assert expected_start(
        snapshot(gpus, [held]), [ahead, mine], mine.allocation_id
    ) == NOW + timedelta(hours=2, minutes=30)
    assert (
        expected_start(snapshot(gpus, [replace(held, ends_at=None)]), [mine], mine.allocation_id)
        is None
    )


def test_alternatives_would_start_now() -> None:
    state = snapshot([gpu(1, free=60), gpu(2, free=60)])
    state.pools[OTHER] = PoolCapacity("spare", [gpu(3), gpu(4)])
    asked = pending(1, Request(2, 100, same_node=True))
    found = alternatives(state, asked)
    assert [a.difference for a in found] == [
        "from pool spare",
        "50 % of each GPU",
        "25 % of each GPU",
    ]
    for a in found:
        assert isinstance(place(state.pools[a.pool_id].gpus, a.pending.request), Placement), (
            a.difference
        )
