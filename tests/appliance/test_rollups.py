"""Metric history: rollups, packing, persistence and expiry of samples."""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from appliance.accounts.models import Project
from appliance.allocations import project_usage
from appliance.telemetry import chunks, history, retention, rollups, series
from appliance.telemetry.models import Chunk
from appliance.telemetry.rollups import Points, from_samples, roll_up
from appliance.telemetry.tiers import TIERS, Tier
from tests.appliance.conftest import Cast, body

RAW, TEN, MINUTE, HOUR = TIERS
NOON = 1_800_000_000 // 86400 * 86400.0

readings = st.lists(
    st.tuples(st.integers(1, 40), st.floats(-1e6, 1e6), st.floats(0, 1e12) | st.just(math.nan)),
    min_size=1,
    max_size=60,
)
ROUNDING = (1e-7, 1e-300)
"""Absolute tolerance of the mean of each metric.

Sums of the first may cancel; those of the second may be too small for a relative tolerance.
"""


def build_points(rows: list[tuple[int, float, float]]) -> Points:
    seconds = NOON + np.cumsum([gap for gap, _, _ in rows])
    return from_samples(("a", "b"), list(seconds), [v for _, a, b in rows for v in (a, b)])


@given(readings, st.sampled_from([10, 60, 3600]))
def test_step_holds_mean_minimum_and_maximum_of_its_samples(
    rows: list[tuple[int, float, float]], step: int
) -> None:
    points = build_points(rows)
    coarse = roll_up(points, step)
    assert coarse.counts[:, 0].sum() == len(rows) and list(coarse.seconds) == sorted(
        set(np.floor(points.seconds / step) * step)
    )
    for i, begin in enumerate(coarse.seconds):
        inside = points.mean[(points.seconds >= begin) & (points.seconds < begin + step), 0]
        assert coarse.mean[i, 0] == pytest.approx(inside.mean()) and (
            coarse.minimum[i, 0],
            coarse.maximum[i, 0],
        ) == (inside.min(), inside.max())


@given(readings)
def test_rollup_through_finer_tiers_equals_direct_rollup(
    rows: list[tuple[int, float, float]],
) -> None:
    points = build_points(rows)
    direct, by_steps = roll_up(points, 3600), roll_up(roll_up(roll_up(points, 10), 60), 3600)
    for name in ("seconds", "minimum", "maximum"):
        np.testing.assert_array_equal(getattr(direct, name), getattr(by_steps, name))
    for column, rounding in enumerate(ROUNDING):
        np.testing.assert_allclose(
            direct.mean[:, column],
            by_steps.mean[:, column],
            rtol=1e-9,
            atol=rounding,
            equal_nan=True,
        )


@given(readings, st.booleans())
def test_unpack_restores_packed_points_exactly(
    rows: list[tuple[int, float, float]], raw: bool
) -> None:
    points = build_points(rows) if raw else roll_up(build_points(rows), 10)
    back = rollups.unpack(rollups.pack(points, raw=raw), points.metrics, raw=raw)
    for name in ("seconds", "counts", "mean", "minimum", "maximum"):
        np.testing.assert_array_equal(getattr(points, name), getattr(back, name))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[uuid.UUID]:
    """Return an id of a series. Those of earlier tests are hidden: packing them takes pauses."""
    gpu_id = uuid.uuid4()
    for name, empty in (("_series", {}), ("_latest", {}), ("_ended", set())):
        monkeypatch.setattr(series, name, empty)
    monkeypatch.setattr(series, "_by_slot", [[] for _ in range(series.WRITE_SLOTS)])
    monkeypatch.setattr(retention, "_written_until", math.nan)
    chunks.metric_set_id.cache_clear()
    chunks.metric_names.cache_clear()
    yield gpu_id
    series.end(gpu_id)
    series.remove_ended([gpu_id])


def pass_time(
    begin: float, seconds: int, gpu_id: uuid.UUID, every: int = 5
) -> list[tuple[float, float]]:
    """Record a sample every `every` seconds and advance the history each second.

    Returns time and utilisation of each sample.
    """
    sent = []
    for second in range(seconds):
        now = begin + second
        if second % every == 0:
            value = float((second * 7919) % 101)
            series.record(
                ("utilisation_percent", "memory_used_bytes"),
                {gpu_id: [value, 79_600_000_001.0 + second]},
                now,
            )
            sent.append((now, value))
        retention.advance(now + 0.5)
    return sent


def read(gpu_id: uuid.UUID, tier: Tier, since: float, until: float) -> list[tuple[float, float]]:
    points = history.read_points(gpu_id, tier, since, until)
    return list(
        zip(
            points.seconds.tolist(),
            points.mean[:, points.metrics.index("utilisation_percent")].tolist(),
            strict=True,
        )
    )


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_samples_are_read_back_from_memory_and_disk(gpu: uuid.UUID) -> None:
    sent = pass_time(NOON, 400, gpu)
    assert Chunk.objects.filter(series_id=gpu).count() >= 5, "complete minutes are stored"
    assert read(gpu, RAW, NOON, NOON + 400) == sent
    retention.flush()
    assert read(gpu, RAW, NOON, NOON + 400) == sent and not len(series.unwritten_points(gpu))


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_samples_stay_readable_during_and_after_a_failed_write(
    gpu: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = pass_time(NOON, 50, gpu)
    series.record(
        ("utilisation_percent", "memory_used_bytes"), {gpu: [7.0, 1.0]}, NOON + 50
    )  # its write slot may have passed
    sent.append((NOON + 50, 7.0))
    seen: list[list[tuple[float, float]]] = []

    def full_disk(*_: object) -> Chunk:
        seen.append(read(gpu, RAW, NOON, NOON + 51))
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(retention, "build_chunk", full_disk)
        for second in range(50, 120):
            with contextlib.suppress(OSError):
                retention.advance(NOON + second)
    assert seen and all(s == sent for s in seen) and read(gpu, RAW, NOON, NOON + 51) == sent
    retention.flush()
    assert read(gpu, RAW, NOON, NOON + 51) == sent and not len(series.unwritten_points(gpu))


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_coarse_tier_reaches_up_to_the_newest_sample(gpu: uuid.UUID) -> None:
    sent = pass_time(NOON, 2000, gpu)
    assert Chunk.objects.filter(series_id=gpu, resolution_seconds=10).exists()
    for tier in (TEN, MINUTE, HOUR):
        wanted = roll_up(
            from_samples(("u",), [t for t, _ in sent], [v for _, v in sent]),
            tier.resolution_seconds,
        )
        assert read(gpu, tier, NOON, NOON + 2000) == list(
            zip(wanted.seconds.tolist(), wanted.mean[:, 0].tolist(), strict=True)
        ), tier


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_expired_samples_are_deleted_and_their_rollups_stay(gpu: uuid.UUID) -> None:
    pass_time(NOON, 600, gpu)
    later = NOON + RAW.retention_seconds + 1500
    for second in range(120):
        retention.advance(later + second)
    assert not Chunk.objects.filter(series_id=gpu, resolution_seconds=0).exists()
    assert len(read(gpu, TEN, NOON, NOON + 600)) == 60


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_ended_series_is_rolled_up_before_its_samples_are_deleted(gpu: uuid.UUID) -> None:
    pass_time(NOON, 600, gpu)
    series.end(gpu)
    for second in range(70):
        retention.advance(NOON + 600 + second)
    assert gpu not in series.series_ids()
    retention.advance(NOON + RAW.retention_seconds + 1500)
    assert (
        not Chunk.objects.filter(series_id=gpu, resolution_seconds=0).exists()
        and len(read(gpu, TEN, NOON, NOON + 600)) == 60
    )


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_changing_sets_of_metrics_are_stored_separately(gpu: uuid.UUID) -> None:
    series.record(("a",), {gpu: [1.0]}, NOON)
    series.record(("a", "b"), {gpu: [2.0, 5.0]}, NOON + 1)
    series.record(("b",), {gpu: [6.0]}, NOON + 2)
    retention.flush()
    points = history.read_points(gpu, RAW, NOON, NOON + 10)
    assert set(points.metrics) == {"a", "b"}
    np.testing.assert_array_equal(points.mean[:, points.metrics.index("a")], [1.0, 2.0, math.nan])
    np.testing.assert_array_equal(points.mean[:, points.metrics.index("b")], [math.nan, 5.0, 6.0])


def test_sample_that_is_not_newer_is_dropped(gpu: uuid.UUID) -> None:
    series.record(("a",), {gpu: [1.0]}, NOON)
    series.record(("a",), {gpu: [9.0]}, NOON)
    series.record(("a",), {gpu: [9.0]}, NOON - 5)
    assert list(series.unwritten_points(gpu).mean[:, 0]) == [1.0]


def test_memory_stays_bounded_when_nothing_is_written(gpu: uuid.UUID) -> None:
    for second in range(5 * series.MAX_UNWRITTEN_SAMPLES):
        series.record(("a",), {gpu: [float(second)]}, NOON + second)
    stored = series.unwritten_points(gpu)
    assert (
        len(stored) <= series.MAX_UNWRITTEN_SAMPLES
        and stored.mean[-1, 0] == 5 * series.MAX_UNWRITTEN_SAMPLES - 1
    )


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_project_has_a_history_of_use_and_queued_allocations(
    cast: Cast, client_of: Callable[..., Any], add_node: Callable[..., Any]
) -> None:
    add_node()
    alice, project = client_of(cast.alice), Project.objects.get(name="default")
    for percent in (30, 80):
        alice.post("/api/v1/allocations", {"percent": percent}, format="json")
    project_usage.record_project_usage()
    shown = {
        i["metric"]: i["points"][-1][1]
        for i in body(alice.get(f"/api/v1/projects/{project.pk}/metrics"))["items"]
    }
    assert (
        shown["allocated_percent"],
        shown["partitions"],
        shown["queued_allocations"],
        shown["sessions"],
    ) == (30, 1, 1, 0)
    assert (
        alice.get(f"/api/v1/projects/{project.pk}/metrics?resolution_seconds=7").status_code == 400
    )
    assert alice.get(f"/api/v1/projects/{project.pk}/metrics?since=yesterday").status_code == 400
    assert (
        alice.get(
            f"/api/v1/projects/{project.pk}/metrics?since=2020-01-01T00:00:00Z&resolution_seconds=0"
        ).status_code
        == 400
    )
    series.end(project.pk)
    series.remove_ended([project.pk])
