"""The slices in which `./bench partitions` compares programs."""

from __future__ import annotations

from remoting.bench.partitions.lost_rows import (
    ALL_TURNS,
    CAPPED,
    NO_TURNS,
    TOGETHER,
    idle_row,
    lost_row,
    row_of_capped,
)
from remoting.bench.partitions.slices import Slices
from remoting.bench.partitions.tenants import Work, sample_of


def test_work_of_a_process_is_of_all_gpus() -> None:
    def gpu(*blocks: int) -> dict[str, object]:
        others = {"executed_nanoseconds": 1, "busy_nanoseconds": 2, "copied_bytes": 3}
        processes = [{"file": n, "executed_blocks": b} | others for n, b in enumerate(blocks)]
        return {"monotonic_nanoseconds": 5, "processes": processes}

    sample = sample_of([gpu(10, 20), gpu(1, 0)])
    assert sample.nanoseconds == 5
    assert sample.work == {0: Work(11, 2, 4, 6), 1: Work(20, 2, 4, 6)}


def test_slices_are_compared_in_pairs() -> None:
    """The machine is half as fast in the last two slices of both."""
    whole, part = Slices([100, 100, 50, 50], []), Slices([30, 31, 15, 15], [])
    assert part.of(whole) == 0.3
    assert whole.spread == 100 * 50 / 75


def test_slices_are_compared_with_the_best_of_several_in_each_round() -> None:
    first, second = Slices([100, 50], []), Slices([50, 100], [])
    assert Slices([80, 80], []).of(first, second) == 0.8


def test_capped_tenant_that_gets_less_than_its_cap_misses() -> None:
    def verdict(percent: float) -> object:
        found = {CAPPED: percent, TOGETHER: 100.0, NO_TURNS: 100.0}
        return row_of_capped("capped", slices_of(found))["verdict"]

    assert [verdict(p) for p in (0, 28, 29.5, 30.5, 32)] == [
        "missed",
        "missed",
        "met",
        "met",
        "missed",
    ]


def test_loss_beside_an_idle_tenant_shows_where_a_tenant_without_turns_is_slow() -> None:
    def idle(all_turns: float) -> object:
        found = {TOGETHER: 97.0, ALL_TURNS: all_turns, NO_TURNS: 80.0}
        return idle_row("idle", slices_of(found))["verdict"]

    assert [idle(100), idle(90)] == ["met", "missed"]


def test_row_of_lost_throughput_shows_all_slices() -> None:
    rates = {TOGETHER: 97.0, ALL_TURNS: 100.0, NO_TURNS: 80.0}
    found = lost_row("lost", slices_of(rates))
    assert found["value"] == 3.0
    assert found["spread"] == dict.fromkeys(rates, 0.0)
    assert found["busy"] == {name: [99.0, 99.0] for name in rates}


def slices_of(rates: dict[str, float]) -> dict[str, Slices]:
    return {name: Slices([rate] * 2, [99.0] * 2) for name, rate in rates.items()}
