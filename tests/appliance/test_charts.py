"""Recent samples that the feed sends when a console opens charts."""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from appliance.accounts.models import User
from appliance.activity import consumers
from appliance.activity.feed import Scope, Subscriber, hub
from appliance.telemetry import charts

METRICS = ("power_watts", "utilisation_percent", "another", "memory_used_bytes")
MOMENTS = (1000.123, 1005.129)


@pytest.fixture(autouse=True)
def empty_charts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(charts, "_recent", {})
    monkeypatch.setattr(charts.series, "record", lambda *of: None)
    yield


def record(monkeypatch: pytest.MonkeyPatch, gpus: int) -> list[str]:
    """Record a sample of each GPU at each of MOMENTS and return the GPU ids."""
    ids = [uuid.uuid4() for _ in range(gpus)]
    for n, moment in enumerate(MOMENTS):
        monkeypatch.setattr(charts.time, "time", lambda moment=moment: moment)
        charts.record_gpu_samples(
            METRICS, {i: [math.nan if n else 70.5, 12.5, 1.0, float(5 << 30)] for i in ids}
        )
    return [str(i) for i in ids]


def test_recent_samples_have_time_and_chart_metrics_with_null_for_missing_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (gpu,) = record(monkeypatch, 1)
    assert json.loads(charts.recent_samples_json(gpu)) == [
        [1000.12, 12.5, 5 << 30, None, 70.5],
        [1005.13, 12.5, 5 << 30, None, None],
    ]


@pytest.mark.parametrize("gpu", [str(uuid.UUID(int=7)), "not-a-uuid"])
def test_unknown_gpu_has_no_recent_samples(gpu: str) -> None:
    assert charts.recent_samples_json(gpu) == ""


def test_thousand_charts_are_sent_in_frames_that_yield_to_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpus = record(monkeypatch, consumers.MAX_GPUS)
    monkeypatch.setattr(hub, "visible", lambda user, wanted: set(wanted))
    frames: list[dict[str, Any]] = []
    turns: list[int] = []

    async def send(message: dict[str, Any]) -> None:
        frames.append(json.loads(message["text"]))

    async def other_coroutine() -> None:
        while True:
            turns.append(len(frames))
            await asyncio.sleep(0)

    async def run() -> None:
        consumer = consumers.FeedConsumer()
        consumer.base_send, consumer.user, consumer.sending_samples = send, User(), asyncio.Lock()
        consumer.subscriber = Subscriber(asyncio.get_running_loop(), Scope(frozenset(), {}))
        other = asyncio.create_task(other_coroutine())
        await consumer._watch(gpus)
        other.cancel()
        hub.leave(consumer.subscriber)

    asyncio.run(run())
    assert sorted(gpu for f in frames for gpu in f["gpus"]) == sorted(gpus), (
        "each GPU must appear once"
    )
    assert max(len(f["gpus"]) for f in frames) <= consumers.GPUS_PER_FRAME
    assert max(later - earlier for earlier, later in pairwise([*turns, len(frames)])) == 1, (
        "the loop must run others after each frame"
    )
