"""The invented past of a demo fleet, read back by the services that show real history."""

from __future__ import annotations

import time
import uuid
from functools import partial

import numpy as np
import pytest
from django.conf import settings

from appliance.telemetry.chunks import metric_set_id
from appliance.telemetry.history import read_points
from appliance.telemetry.models import Chunk
from appliance.telemetry.tiers import TIERS, Tier
from deploy.demo_fleet.hardware import MODELS
from deploy.demo_fleet.past import METRICS, gpu_points
from deploy.demo_fleet.past_rows import DAYS, chunks_of

SERIES = uuid.UUID(int=0x5EED)
HOUR = 3600
RANGES = [(TIERS[3], DAYS * 24 * HOUR), (TIERS[2], 24 * HOUR), (TIERS[1], 2 * HOUR)]


@pytest.mark.parametrize(("tier", "seconds"), RANGES, ids=["hours", "minutes", "tens"])
@pytest.mark.django_db(databases=list(settings.DATABASES))
def test_past_has_no_gap_in_the_resolution_of_each_range(tier: Tier, seconds: int) -> None:
    metric_set_id.cache_clear()  # its row went with the last test
    now = time.time()
    source = partial(gpu_points, 7, MODELS[0])
    Chunk.objects.bulk_create(chunks_of(SERIES, now, source))
    points = read_points(SERIES, tier, now - seconds, now)
    assert points.metrics == METRICS
    assert set(np.diff(points.seconds)) == {float(tier.resolution_seconds)}
    assert len(points) >= seconds // tier.resolution_seconds - 1
    assert now - points.seconds[-1] < tier.resolution_seconds + 2


def test_values_stay_within_their_bounds_and_have_busy_and_idle_times() -> None:
    points = gpu_points(11, MODELS[0], np.arange(0, 7 * 24 * HOUR, 60.0), 60)
    use = dict(zip(points.metrics, points.mean.T, strict=True))
    assert use["utilisation_percent"].min() == 0 and use["utilisation_percent"].max() > 60
    assert use["memory_used_bytes"].max() <= MODELS[0].memory_bytes
    assert (points.minimum <= points.mean).all() and (points.mean <= points.maximum).all()


def test_equal_times_have_equal_loads_in_each_resolution() -> None:
    fine = gpu_points(3, MODELS[1], np.arange(0, 24 * HOUR, 60.0), 60)
    coarse = gpu_points(3, MODELS[1], np.arange(0, 24 * HOUR, 3600.0), 3600)
    assert (fine.mean[::60] == coarse.mean).all()
