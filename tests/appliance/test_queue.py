"""The queue's decisions are pure: its promises are tried on thousands of little fleets."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.allocations import queue
from appliance.allocations.claims import (
    Book,
    Entitlement,
    Holder,
    Holders,
    PoolRooms,
    Reservation,
    Rule,
    Start,
    Subject,
    Wait,
    Waiter,
    without,
)
from appliance.allocations.forecast import alternatives, expected_start
from appliance.allocations.placement import GpuRoom, Placed, Request, place
from appliance.pools.subject_kind import SubjectKind
from tests.appliance.test_placement import gpu

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
POOL, OTHER = uuid.UUID(int=50), uuid.UUID(int=51)
RED, BLUE = uuid.UUID(int=60), uuid.UUID(int=61)


def project(id_: uuid.UUID) -> Subject:
    return Subject(SubjectKind.PROJECT, id_)


def waiter(number: int, request: Request, project_id: uuid.UUID = RED, **more: Any) -> Waiter:
    values: dict[str, Any] = {
        "pools": (POOL,), "subjects": (project(project_id), Subject(SubjectKind.USER, uuid.UUID(int=70 + project_id.int))), "priority": 50,
        "preemptible": True, "created_at": NOW - timedelta(minutes=1),
    }  # fmt: skip
    return Waiter(uuid.UUID(int=number), request, project_id=project_id, **(values | more))


def book(
    gpus: list[GpuRoom],
    holders: list[Holder] | None = None,
    owed: dict[Subject, Entitlement] | None = None,
    **more: Any,
) -> Book:
    rooms = without(gpus, (s for h in holders or [] for s in h.shares))
    return Book(NOW, {POOL: PoolRooms("pool", rooms)}, Holders(holders or []), owed or {}, **more)


def holding(
    number: int,
    gpus: list[GpuRoom],
    request: Request,
    project_id: uuid.UUID = BLUE,
    taken: list[Holder] | None = None,
    **more: Any,
) -> Holder:
    outcome = place(without(gpus, (s for h in taken or [] for s in h.shares)), request)
    assert isinstance(outcome, Placed)
    values: dict[str, Any] = {
        "priority": 50,
        "preemptible": True,
        "started_at": NOW - timedelta(hours=1),
    }
    return Holder(
        uuid.UUID(int=number),
        POOL,
        outcome.shares,
        (project(project_id),),
        project_id,
        **(values | more),
    )


def decided(b: Book, *waiting: Waiter) -> dict[int, Start | Wait]:
    return {i.int: outcome for i, outcome in queue.decide(b, waiting)}


def rule(outcome: Start | Wait) -> Rule | None:
    return outcome.rule if isinstance(outcome, Wait) else None


# ---- promises ----


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Book, list[Waiter], list[GpuRoom]]:
    gpus = [gpu(1 + i, 1 + i // 4) for i in range(draw(st.integers(1, 6)))]
    sizes = st.builds(
        Request, gpu_count=st.integers(1, 3), percent=st.sampled_from([10, 30, 50, 100])
    )
    rooms, holders = list(gpus), list[Holder]()
    for i in range(draw(st.integers(0, 6))):
        outcome = place(rooms, draw(sizes))
        if isinstance(outcome, Placed):
            p = draw(st.sampled_from([RED, BLUE]))
            holders.append(
                Holder(
                    uuid.UUID(int=200 + i),
                    POOL,
                    outcome.shares,
                    (project(p),),
                    p,
                    draw(st.integers(0, 100)),
                    draw(st.booleans()),
                    NOW - timedelta(minutes=i),
                    leaving=draw(st.booleans()),
                )
            )
            rooms = without(rooms, outcome.shares)
    owed = {
        project(p): Entitlement(
            f"p{p.int}", draw(st.sampled_from([None, 0, 100, 230])), draw(st.sampled_from([None, 150, 400])), draw(st.booleans()),
            draw(st.sampled_from([0.5, 1.0, 3.0])),
        )
        for p in (RED, BLUE)
    }  # fmt: skip
    waiting = [
        waiter(
            300 + i, draw(sizes), draw(st.sampled_from([RED, BLUE])), priority=draw(st.sampled_from([10, 50, 90])), preemptible=draw(st.booleans()),
            created_at=NOW - timedelta(minutes=draw(st.integers(0, 30))),
        )
        for i in range(draw(st.integers(0, 8)))
    ]  # fmt: skip
    return book(gpus, holders, owed), waiting, gpus


def keep_promises(b: Book, waiting: list[Waiter]) -> None:
    """Room, limits and quotas before and after; who is asked to leave, and for whom."""
    before, fixed_before = dict(b.use), dict(b.holders.fixed_use)
    present, freed = dict(b.holders), list(b.pools[POOL].rooms)
    by_id = {w.allocation_id: w for w in waiting}
    outcomes = dict(queue.decide(b, waiting))
    assert outcomes.keys() == by_id.keys(), "a request was forgotten"
    use, fixed, started = dict(before), dict(fixed_before), list[Waiter]()
    for allocation_id, outcome in outcomes.items():
        w = by_id[allocation_id]
        if isinstance(outcome, Start):
            freed = without(freed, outcome.placed.shares)
            size = sum(s.compute_percent for s in outcome.placed.shares)
            started.append(w)
            for subject in w.subjects:
                use[subject] = use.get(subject, 0) + size
                fixed[subject] = fixed.get(subject, 0) + (0 if w.preemptible else size)
            continue
        assert outcome.reason
        going = [present[v] for v in outcome.evictions]
        assert all(h.preemptible and not h.leaving for h in going), (
            "what cannot be preempted, or leaves already, was asked to leave"
        )
        assert all(h.project_id != w.project_id or h.priority < w.priority for h in going), (
            "an equal was asked to leave"
        )
    assert all(g.free_percent >= 0 and g.free_memory_bytes >= 0 for g in freed), (
        "more was given than there is"
    )
    for w in started:
        for subject in w.subjects:
            e = b.entitlements.get(subject)
            if e is None:
                continue
            assert e.limit_percent is None or use[subject] <= e.limit_percent, "over the limit"
            if e.quota_percent is not None and not e.borrows:
                assert use[subject] <= e.quota_percent, "borrowed without leave"
            if e.quota_percent is not None and not w.preemptible:
                assert fixed[subject] <= e.quota_percent, (
                    "over the quota with what cannot be preempted"
                )


@given(fleets())
@settings(max_examples=300)
def test_a_round_keeps_its_promises(fleet: tuple[Book, list[Waiter], list[GpuRoom]]) -> None:
    keep_promises(*fleet[:2])


def test_the_promises_notice_a_queue_that_forgets_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "over_limit", lambda *_: None)
    b = book([gpu(1), gpu(2)], owed={project(RED): Entitlement("red", limit_percent=100)})
    with pytest.raises(AssertionError, match="over the limit"):
        keep_promises(b, [waiter(300, Request(2, 100))])


# ---- order ----


def test_priority_goes_first_then_who_has_had_least_then_who_came_first() -> None:
    gpus = [gpu(1)]
    urgent, early = (
        waiter(1, Request(1, 100), priority=90),
        waiter(2, Request(1, 100), created_at=NOW - timedelta(hours=1)),
    )
    assert isinstance(decided(book(gpus), early, urgent)[1], Start)
    modest, greedy = (
        waiter(3, Request(1, 100), RED),
        waiter(4, Request(1, 100), BLUE, created_at=NOW - timedelta(hours=1)),
    )
    assert isinstance(decided(book(gpus, past={BLUE: 500.0}), modest, greedy)[3], Start), (
        "past use did not count"
    )
    heavy = {project(BLUE): Entitlement("blue", weight=10.0)}
    assert isinstance(
        decided(book(gpus, owed=heavy, past={BLUE: 500.0, RED: 100.0}), modest, greedy)[4], Start
    ), "the weight did not count"


def test_a_small_request_may_pass_a_large_one_until_that_has_waited_long() -> None:
    gpus = [gpu(1), gpu(2)]
    held = holding(9, gpus, Request(1, 50), preemptible=False)
    large, small = waiter(1, Request(2, 100)), waiter(2, Request(1, 30), BLUE)
    assert isinstance(decided(book(gpus, [held]), large, small)[2], Start)
    patient = replace(large, created_at=NOW - timedelta(minutes=11))
    assert rule(decided(book(gpus, [held]), patient, small)[2]) is Rule.AHEAD
    other = replace(patient, request=Request(2, 100, model="nothing here"))
    assert isinstance(decided(book(gpus, [held]), other, small)[2], Start), (
        "GPUs were kept for one that cannot use them"
    )


def test_pools_are_tried_in_order() -> None:
    b = book([gpu(1, free=10)])
    b.pools[OTHER] = PoolRooms("other", [gpu(2)])
    outcome = decided(b, waiter(1, Request(1, 50), pools=(POOL, OTHER)))[1]
    assert isinstance(outcome, Start) and outcome.pool_id == OTHER


# ---- quotas, limits, reclaim, preemption ----


def test_a_limit_names_itself_and_counts_fractions() -> None:
    b = book(
        [gpu(i) for i in range(1, 5)], owed={project(RED): Entitlement("red", limit_percent=230)}
    )
    outcomes = decided(
        b, waiter(1, Request(2, 100)), waiter(2, Request(1, 30)), waiter(3, Request(1, 10))
    )
    blocked = [o for o in outcomes.values() if isinstance(o, Wait)]
    assert (
        len(blocked) == 1
        and blocked[0].rule is Rule.LIMIT
        and "project red is 2.3 GPUs" in blocked[0].reason
    )


def test_what_is_not_preemptible_stays_within_the_quota() -> None:
    b = book([gpu(1), gpu(2)], owed={project(RED): Entitlement("red", quota_percent=100)})
    assert rule(decided(b, waiter(1, Request(2, 100), preemptible=False))[1]) is Rule.QUOTA
    assert isinstance(decided(b, waiter(1, Request(2, 100)))[1], Start), (
        "a preemptible one may borrow"
    )


def test_what_was_borrowed_is_given_back_to_who_is_owed() -> None:
    gpus = [gpu(1), gpu(2)]
    first = holding(8, gpus, Request(1, 100))
    second = holding(9, gpus, Request(1, 100), taken=[first], started_at=NOW - timedelta(minutes=1))
    owed = {
        project(RED): Entitlement("red", quota_percent=100),
        project(BLUE): Entitlement("blue", quota_percent=100),
    }
    outcome = decided(book(gpus, [first, second], owed), waiter(1, Request(1, 100)))[1]
    assert (
        isinstance(outcome, Wait)
        and outcome.rule is Rule.RECLAIM
        and [v.int for v in outcome.evictions] == [9]
    ), "the youngest borrower leaves"
    leaving = replace(second, leaving=True)
    outcome = decided(book(gpus, [first, leaving], owed), waiter(1, Request(1, 100)))[1]
    assert isinstance(outcome, Wait) and outcome.rule is Rule.RECLAIM and not outcome.evictions, (
        "more leave than needed"
    )
    beyond = decided(book(gpus, [first, second], owed), waiter(1, Request(2, 100)))[1]
    assert rule(beyond) is Rule.ROOM, "beyond its own quota nobody is asked to leave"


@pytest.mark.parametrize("change", [{"preemptible": False}, {"priority": 50}])
def test_within_a_project_only_the_less_important_and_preemptible_yields(
    change: dict[str, Any],
) -> None:
    gpus = [gpu(1)]
    held = holding(9, gpus, Request(1, 100), RED, priority=10)
    urgent = waiter(1, Request(1, 100), priority=50)
    outcome = decided(book(gpus, [held]), urgent)[1]
    assert isinstance(outcome, Wait) and [v.int for v in outcome.evictions] == [9]
    assert rule(decided(book(gpus, [replace(held, **change)]), urgent)[1]) is Rule.ROOM


def test_only_as_many_leave_as_are_needed() -> None:
    gpus = [gpu(1), gpu(2, 2)]
    small = holding(7, gpus, Request(1, 30), RED, priority=1)
    large = holding(8, gpus, Request(1, 100), RED, taken=[small], priority=2)
    outcome = decided(book(gpus, [small, large]), waiter(1, Request(1, 100)))[1]
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


def test_a_reservation_keeps_its_gpus_from_what_would_still_be_there() -> None:
    b = lambda now=NOW: replace(book([gpu(1)], reservations=[RESERVED]), now=now)  # noqa: E731
    stays, brief = (
        waiter(1, Request(1, 50), preemptible=False),
        waiter(1, Request(1, 50), preemptible=False, ends_after=timedelta(minutes=50)),
    )
    assert rule(decided(b(), stays)[1]) is Rule.RESERVATION
    assert isinstance(decided(b(), brief)[1], Start), "it would have ended before"
    assert isinstance(decided(b(), replace(stays, preemptible=True))[1], Start), (
        "it can be asked to leave"
    )
    begun = NOW + timedelta(hours=2)
    assert rule(decided(b(begun), replace(stays, preemptible=True))[1]) is Rule.RESERVATION
    assert isinstance(decided(b(begun), replace(stays, reservation_id=RESERVED.id))[1], Start), (
        "whom it is for was kept out"
    )
    assert isinstance(decided(b(NOW + timedelta(hours=4)), stays)[1], Start), "it is over"


def test_when_a_reservation_begins_preemptible_work_leaves_for_it_and_for_no_more_than_was_reserved() -> (
    None
):
    gpus, begun = [gpu(1), gpu(2)], replace(RESERVED, starts_at=NOW - timedelta(minutes=1))
    first = holding(8, gpus, Request(1, 100), RED)
    second = holding(
        9, gpus, Request(1, 100), RED, taken=[first], started_at=NOW - timedelta(minutes=2)
    )
    asked = waiter(1, Request(1, 100), BLUE, reservation_id=begun.id)
    outcome = decided(book(gpus, [first, second], reservations=[begun]), asked)[1]
    assert isinstance(outcome, Wait) and [v.int for v in outcome.evictions] == [9]
    assert (
        rule(
            decided(
                book(
                    gpus,
                    [replace(first, preemptible=False), replace(second, preemptible=False)],
                    reservations=[begun],
                ),
                asked,
            )[1]
        )
        is Rule.ROOM
    )
    assert (
        rule(
            decided(
                book(gpus, [first, second], reservations=[begun]),
                replace(asked, request=Request(2, 100)),
            )[1]
        )
        is Rule.ROOM
    ), "more than was reserved"
    assert (
        rule(decided(book(gpus, [first, second], reservations=[RESERVED]), asked)[1]) is Rule.ROOM
    ), "before it begins nobody leaves"


def test_a_reservation_that_the_pool_could_never_give_holds_nobody_back() -> None:
    impossible = replace(RESERVED, request=Request(9, 100), starts_at=NOW - timedelta(minutes=1))
    assert isinstance(
        decided(book([gpu(1)], reservations=[impossible]), waiter(1, Request(1, 50)))[1], Start
    )


# ---- forecasts ----


def test_the_expected_start_counts_those_ahead() -> None:
    gpus = [gpu(1)]
    held = holding(9, gpus, Request(1, 100), preemptible=False, ends_at=NOW + timedelta(minutes=30))
    ahead = waiter(1, Request(1, 100), priority=90, ends_after=timedelta(hours=2))
    mine = waiter(2, Request(1, 100))
    assert expected_start(book(gpus, [held]), [mine], mine.allocation_id) == NOW + timedelta(
        minutes=30
    )
    assert expected_start(book(gpus, [held]), [ahead, mine], mine.allocation_id) == NOW + timedelta(
        hours=2, minutes=30
    )
    assert (
        expected_start(book(gpus, [replace(held, ends_at=None)]), [mine], mine.allocation_id)
        is None
    )


def test_three_alternatives_would_start_now() -> None:
    b = book([gpu(1, free=60), gpu(2, free=60)])
    b.pools[OTHER] = PoolRooms("spare", [gpu(3), gpu(4)])
    asked = waiter(1, Request(2, 100, same_node=True))
    found = alternatives(b, asked)
    assert [a.difference for a in found] == [
        "from pool spare",
        "50 % of each GPU",
        "25 % of each GPU",
    ]
    for a in found:
        assert isinstance(place(b.pools[a.pool_id].rooms, a.waiter.request), Placed), a.difference
