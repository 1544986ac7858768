"""The load test's own checks: misses, lost samples and the stage of each figure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from tests.load.__main__ import count_equal_samples, latencies
from tests.load.latency import quantile, summarise
from tests.load.permission_cost import cost_row, interleave
from tests.load.stages import Measured

SENT = {"gpu": [{"power_watts": 1.0, "fan_percent": 2.0}, {"power_watts": 3.0, "fan_percent": 4.0}]}


class FakeBench:
    """Serves the metrics of one GPU."""

    def __init__(self, **points: list[float]) -> None:
        self.items = [
            {"metric": metric, "points": [[n, value] for n, value in enumerate(values)]}
            for metric, values in points.items()
        ]

    def get(self, path: str) -> Any:
        assert path == "gpus/gpu/metrics?resolution_seconds=0"
        return {"items": self.items}


@pytest.mark.parametrize(
    ("bench", "equal"),
    [
        (FakeBench(power_watts=[1.0, 3.0], fan_percent=[2.0, 4.0]), 4),
        (FakeBench(power_watts=[1.0, 3.1], fan_percent=[2.0, 4.0]), 3),
        (FakeBench(power_watts=[1.0], fan_percent=[2.0, 4.0]), 2),
        (FakeBench(fan_percent=[2.0, 4.0]), 2),
    ],
    ids=["unchanged", "one value changed", "one sample lost", "one metric lost"],
)
def test_lost_or_changed_sample_is_not_equal(bench: FakeBench, equal: int) -> None:
    assert count_equal_samples(bench, SENT) == (equal, 4)  # type: ignore[arg-type]


def test_quantile_within_misses_is_infinite() -> None:
    fast = [0.001] * 98
    assert quantile(fast, 0, 0.99) == 0.001 and quantile(fast, 2, 0.98) == 0.001
    assert quantile(fast, 2, 0.99) == math.inf == quantile([], 0, 0.5)
    assert summarise(fast, 2)["misses"] == 2


def test_pairs_alternate_their_order_and_give_the_median_cost() -> None:
    order: list[str] = []
    few, many = iter([10.0, 10.0, 20.0]), iter([10.2, 11.0, 20.2])

    def measure(name: str, values: Iterator[float]) -> float:
        order.append(name)
        return next(values)

    pairs = interleave(3, lambda: measure("few", few), lambda: measure("many", many))
    assert order == ["few", "many", "many", "few", "few", "many"]
    row = cost_row(pairs)
    assert row["value"] == 2.0 and row["met"] is True and row["added_percent"] == [2.0, 10.0, 1.0]
    assert cost_row([(10.0, 10.6)])["met"] is False


def measured(ingest: float, lag: float, **figures: float) -> Measured:
    def of(name: str) -> dict[str, float]:
        return {"p50_ms": 1.0, "p99_ms": figures[name], "misses": 0.0} if name in figures else {}

    status = {"loop_lag_p99_ms": lag, "index_mismatches": 0}
    return Measured(
        [{"p99_ms": ingest}, {"p99_ms": 1.0}],
        of("browsers"),
        of("lists"),
        of("pairs"),
        status,
        1,
        0.5,
        0.0,
        [1.0],
    )


def test_figure_is_from_its_own_stage_and_ingest_is_the_maximum() -> None:
    stages = {
        "agents": measured(10, 1),
        "lists": measured(60, 2, lists=299),
        "allocations": measured(20, 70, pairs=math.inf),
        "together": measured(999, 999, browsers=9, lists=9, pairs=9),
    }
    found = {str(r["name"]): r for r in latencies(stages)}
    assert {name: (r["value"], r["met"]) for name, r in found.items()} == {
        "ingest_ack_p99_ms": (60, False),
        "list_p99_ms": (299, True),
        "allocate_ticket_p99_ms": (math.inf, False),
        "loop_lag_p99_ms": (70, False),
    }
    assert found["ingest_ack_p99_ms"]["stage"] == "lists"
