"""What a browser that opens charts is given at once: the last minutes of each GPU that it watches."""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from appliance.activity import consumers
from appliance.activity.feed import Scope, Subscriber, hub
from appliance.telemetry import charts

METRICS = ("power_watts", "utilisation_percent", "another", "memory_used_bytes")
MOMENTS = (1000.123, 1005.129)


@pytest.fixture(autouse=True)
def nothing_else_is_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(charts, "_recent", {})
    monkeypatch.setattr(charts.series, "record", lambda *of: None)
    yield


def record(monkeypatch: pytest.MonkeyPatch, gpus: int) -> list[str]:
    """At each of the moments, readings of so many; their ids."""
    ids = [uuid.uuid4() for _ in range(gpus)]
    for n, moment in enumerate(MOMENTS):
        monkeypatch.setattr(charts.time, "time", lambda moment=moment: moment)
        charts.record_gpus(
            METRICS, {i: [math.nan if n else 70.5, 12.5, 1.0, float(5 << 30)] for i in ids}
        )
    return [str(i) for i in ids]


def test_the_last_minutes_are_rows_of_time_and_what_is_charted_and_null_where_there_was_no_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (gpu,) = record(monkeypatch, 1)
    assert json.loads(charts.last_minutes(gpu)) == [
        [1000.12, 12.5, 5 << 30, None, 70.5],
        [1005.13, 12.5, 5 << 30, None, None],
    ]


@pytest.mark.parametrize("gpu", [str(uuid.uuid4()), "no id"])
def test_of_a_gpu_that_is_not_known_there_is_nothing(gpu: str) -> None:
    assert charts.last_minutes(gpu) == ""


def test_a_page_of_a_thousand_charts_leaves_everybody_else_a_turn_between_its_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpus = record(monkeypatch, consumers.MAX_GPUS)
    monkeypatch.setattr(hub, "visible", lambda user, wanted: set(wanted))
    frames: list[dict[str, Any]] = []
    turns: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        frames.append(json.loads(message["text"]))

    async def others() -> None:
        while True:
            turns.append(len(frames))
            await asyncio.sleep(0)

    async def run() -> None:
        consumer = consumers.FeedConsumer()
        consumer.base_send, consumer.user, consumer.sending_samples = send, None, asyncio.Lock()
        consumer.subscriber = Subscriber(asyncio.get_running_loop(), Scope(frozenset(), {}))
        beside = asyncio.create_task(others())
        await consumer._watch(gpus)
        beside.cancel()
        hub.leave(consumer.subscriber)

    asyncio.run(run())
    assert sorted(gpu for f in frames for gpu in f["gpus"]) == sorted(gpus), "each once"
    assert max(len(f["gpus"]) for f in frames) <= consumers.GPUS_A_FRAME
    assert max(later - earlier for earlier, later in pairwise([*turns, len(frames)])) == 1, (
        "a turn after each frame"
    )
