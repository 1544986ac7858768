"""Samples over time: what is kept, in which resolution, and that nothing is lost on the way to the disk."""

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
from appliance.allocations import services
from appliance.telemetry import history, rollups, series
from appliance.telemetry.models import Chunk
from appliance.telemetry.rollups import TIERS, Points, rolled, samples
from tests.appliance.conftest import Cast, body

RAW, TEN, MINUTE, HOUR = TIERS
NOON = 1_800_000_000 // 86400 * 86400.0

readings = st.lists(
    st.tuples(st.integers(1, 40), st.floats(-1e6, 1e6), st.floats(0, 1e12) | st.just(math.nan)),
    min_size=1,
    max_size=60,
)
ROUNDING = (1e-7, 1e-300)
"""Of a mean of each: sums of the first may cancel, those of the second may be too small for a relative difference."""


def made(rows: list[tuple[int, float, float]]) -> Points:
    seconds = NOON + np.cumsum([gap for gap, _, _ in rows])
    return samples(("a", "b"), list(seconds), [v for _, a, b in rows for v in (a, b)])


@given(readings, st.sampled_from([10, 60, 3600]))
def test_a_step_holds_mean_least_and_most_of_its_samples(
    rows: list[tuple[int, float, float]], step: int
) -> None:
    points = made(rows)
    coarse = rolled(points, step)
    assert coarse.counts[:, 0].sum() == len(rows) and list(coarse.seconds) == sorted(
        set(np.floor(points.seconds / step) * step)
    )
    for i, begin in enumerate(coarse.seconds):
        inside = points.mean[(points.seconds >= begin) & (points.seconds < begin + step), 0]
        assert coarse.mean[i, 0] == pytest.approx(inside.mean()) and (
            coarse.least[i, 0],
            coarse.most[i, 0],
        ) == (inside.min(), inside.max())


@given(readings)
def test_rolling_up_by_way_of_finer_steps_gives_the_same(
    rows: list[tuple[int, float, float]],
) -> None:
    points = made(rows)
    direct, by_steps = rolled(points, 3600), rolled(rolled(rolled(points, 10), 60), 3600)
    for name in ("seconds", "least", "most"):
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
def test_what_is_packed_comes_back_exactly(rows: list[tuple[int, float, float]], raw: bool) -> None:
    points = made(rows) if raw else rolled(made(rows), 10)
    back = rollups.unpacked(rollups.packed(points, raw=raw), points.metrics, raw=raw)
    for name in ("seconds", "counts", "mean", "least", "most"):
        np.testing.assert_array_equal(getattr(points, name), getattr(back, name))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[uuid.UUID]:
    gpu_id = uuid.uuid4()
    monkeypatch.setattr(history, "_advanced", math.nan)
    history.set_of.cache_clear()
    history.names_of.cache_clear()
    yield gpu_id
    series.end(gpu_id)
    series.forget_ended([gpu_id])


def pass_time(
    begin: float, seconds: int, gpu_id: uuid.UUID, every: int = 5
) -> list[tuple[float, float]]:
    """Samples and the writer's seconds, in their order."""
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
        history.advance(now + 0.5)
    return sent


def read(
    gpu_id: uuid.UUID, tier: rollups.Tier, since: float, until: float
) -> list[tuple[float, float]]:
    points = history.points(gpu_id, tier, since, until)
    return list(
        zip(
            points.seconds.tolist(),
            points.mean[:, points.metrics.index("utilisation_percent")].tolist(),
            strict=True,
        )
    )


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_what_was_sent_is_read_back_from_memory_and_disk_alike(gpu: uuid.UUID) -> None:
    sent = pass_time(NOON, 400, gpu)
    assert Chunk.objects.filter(series_id=gpu).count() >= 5, "closed minutes lie on disk"
    assert read(gpu, RAW, NOON, NOON + 400) == sent
    history.write_everything()
    assert read(gpu, RAW, NOON, NOON + 400) == sent and not len(series.open_points(gpu))


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_what_is_being_written_is_read_and_what_could_not_be_written_is_kept(
    gpu: uuid.UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = pass_time(NOON, 50, gpu)
    series.record(
        ("utilisation_percent", "memory_used_bytes"), {gpu: [7.0, 1.0]}, NOON + 50
    )  # its turn may just have been
    sent.append((NOON + 50, 7.0))
    seen: list[list[tuple[float, float]]] = []

    def full_disk(*_: object) -> Chunk:
        seen.append(read(gpu, RAW, NOON, NOON + 51))
        raise OSError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(history, "chunk_of", full_disk)
        for second in range(50, 120):
            with contextlib.suppress(OSError):
                history.advance(NOON + second)
    assert seen and all(s == sent for s in seen) and read(gpu, RAW, NOON, NOON + 51) == sent
    history.write_everything()
    assert read(gpu, RAW, NOON, NOON + 51) == sent and not len(series.open_points(gpu))


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_a_coarse_tier_reaches_up_to_the_newest_sample(gpu: uuid.UUID) -> None:
    sent = pass_time(NOON, 2000, gpu)
    assert Chunk.objects.filter(series_id=gpu, resolution_seconds=10).exists()
    for tier in (TEN, MINUTE, HOUR):
        wanted = rolled(
            samples(("u",), [t for t, _ in sent], [v for _, v in sent]), tier.resolution_seconds
        )
        assert read(gpu, tier, NOON, NOON + 2000) == list(
            zip(wanted.seconds.tolist(), wanted.mean[:, 0].tolist(), strict=True)
        ), tier


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_old_samples_go_and_their_rollups_stay(gpu: uuid.UUID) -> None:
    pass_time(NOON, 600, gpu)
    later = NOON + RAW.kept_seconds + 1500
    for second in range(120):
        history.advance(later + second)
    assert not Chunk.objects.filter(series_id=gpu, resolution_seconds=0).exists()
    assert len(read(gpu, TEN, NOON, NOON + 600)) == 60


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_a_series_that_ended_is_rolled_up_before_its_samples_go(gpu: uuid.UUID) -> None:
    pass_time(NOON, 600, gpu)
    series.end(gpu)
    for second in range(70):
        history.advance(NOON + 600 + second)
    assert gpu not in series.known()
    history.advance(NOON + RAW.kept_seconds + 1500)
    assert (
        not Chunk.objects.filter(series_id=gpu, resolution_seconds=0).exists()
        and len(read(gpu, TEN, NOON, NOON + 600)) == 60
    )


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_metrics_that_come_and_go_are_kept_apart(gpu: uuid.UUID) -> None:
    series.record(("a",), {gpu: [1.0]}, NOON)
    series.record(("a", "b"), {gpu: [2.0, 5.0]}, NOON + 1)
    series.record(("b",), {gpu: [6.0]}, NOON + 2)
    history.write_everything()
    points = history.points(gpu, RAW, NOON, NOON + 10)
    assert set(points.metrics) == {"a", "b"}
    np.testing.assert_array_equal(points.mean[:, points.metrics.index("a")], [1.0, 2.0, math.nan])
    np.testing.assert_array_equal(points.mean[:, points.metrics.index("b")], [math.nan, 5.0, 6.0])


def test_a_sample_that_is_not_newer_changes_nothing(gpu: uuid.UUID) -> None:
    series.record(("a",), {gpu: [1.0]}, NOON)
    series.record(("a",), {gpu: [9.0]}, NOON)
    series.record(("a",), {gpu: [9.0]}, NOON - 5)
    assert list(series.open_points(gpu).mean[:, 0]) == [1.0]


def test_nobody_writes_and_memory_stays_bounded(gpu: uuid.UUID) -> None:
    for second in range(5 * series.MAX_OPEN_SAMPLES):
        series.record(("a",), {gpu: [float(second)]}, NOON + second)
    kept = series.open_points(gpu)
    assert (
        len(kept) <= series.MAX_OPEN_SAMPLES and kept.mean[-1, 0] == 5 * series.MAX_OPEN_SAMPLES - 1
    )


@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_a_project_has_a_history_of_what_it_holds_and_waits_for(
    cast: Cast, client_of: Callable[..., Any], add_node: Callable[..., Any]
) -> None:
    add_node()
    alice, project = client_of(cast.alice), Project.objects.get(name="default")
    for percent in (30, 80):
        alice.post("/api/v1/allocations", {"percent": percent}, format="json")
    services.count_use()
    shown = {
        i["metric"]: i["points"][-1][1]
        for i in body(alice.get(f"/api/v1/projects/{project.pk}/metrics"))["items"]
    }
    assert (
        shown["allocated_percent"],
        shown["partitions"],
        shown["waiting_allocations"],
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
    series.forget_ended([project.pk])
