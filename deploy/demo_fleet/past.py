"""Invented past of GPUs and projects, as points of their series. Pure functions without I/O.

A GPU has another load in each period of two hours, which is mostly idle at night and on weekends.
"""

from __future__ import annotations

import numpy as np

from appliance.allocations.project_usage import PROJECT_METRICS
from appliance.telemetry.rollups import Floats, Points
from deploy.demo_fleet.hardware import (
    AMBIENT_CELSIUS,
    CONTEXT_BYTES,
    FULL_LOAD_CELSIUS,
    IDLE_HERTZ,
    MEMORY_ABOVE_CELSIUS,
    Model,
)

PERIOD_SECONDS = 7200
DAY_SECONDS, WEEK_DAYS = 86_400, 7
METRICS = (
    "utilisation_percent", "memory_used_bytes", "temperature_celsius",
    "memory_temperature_celsius", "power_watts", "power_limit_watts",
    "memory_utilisation_percent", "compute_clock_hertz", "memory_clock_hertz",
)  # fmt: skip
SAMPLE_SECONDS = 2
"""Distance of the samples of which a point is made."""


def demand(seconds: Floats) -> Floats:
    """Return how likely a GPU is in use at these times, between 0 and 1."""
    hours = seconds % DAY_SECONDS / 3600
    days = np.floor(seconds / DAY_SECONDS) % WEEK_DAYS
    by_day = 0.45 + 0.4 * np.exp(-(((hours - 14) / 5) ** 2))
    weekend = (days == 2) | (days == 3)  # the first day of Unix time was a Thursday
    return np.where(weekend, 0.55, 1.0) * by_day


def load(seed: int, seconds: Floats) -> tuple[Floats, Floats]:
    """Return use and share of used memory of one GPU at these times, between 0 and 1.

    Equal times give equal loads, whatever the resolution.
    """
    periods = np.floor((seconds + seed % PERIOD_SECONDS) / PERIOD_SECONDS)
    distinct, position = np.unique(periods, return_inverse=True)
    draws = np.array([np.random.default_rng([seed % 2**63, int(p)]).random(4) for p in distinct])
    chance, level, memory, swing = draws[position].T
    in_use = chance < demand(periods * PERIOD_SECONDS)
    wave = 0.12 * swing * np.sin(seconds / 97) + 0.06 * np.sin(seconds / 1301 + seed % 7)
    busy = np.clip(np.where(in_use, 0.25 + 0.75 * level + wave, 0.0), 0.0, 1.0)
    return busy, np.where(in_use, 0.15 + 0.8 * memory, 0.0)


def gpu_values(model: Model, busy: Floats, memory: Floats) -> Floats:
    """Return a table with a row for each time and a column for each of METRICS."""
    celsius = AMBIENT_CELSIUS + FULL_LOAD_CELSIUS * busy
    watts = model.idle_watts + (model.power_limit_watts - model.idle_watts) * busy**0.85
    constant = np.ones_like(busy)
    return np.column_stack(
        (
            np.round(100 * busy),
            np.round(CONTEXT_BYTES + 0.92 * model.memory_bytes * memory, -6),
            np.round(celsius),
            np.round(celsius + MEMORY_ABOVE_CELSIUS * busy),
            np.round(watts),
            model.power_limit_watts * constant,
            np.round(61 * busy),
            np.where(busy > 0, model.compute_hertz, IDLE_HERTZ),
            model.memory_hertz * constant,
        )
    )


def gpu_points(seed: int, model: Model, seconds: Floats, step: int) -> Points:
    """Return the points of a GPU at these times, each for a step of this length."""
    busy, memory = load(seed, seconds)
    spread = np.where(busy > 0, 0.08, 0.0) if step else np.zeros_like(busy)
    mean = gpu_values(model, busy, memory)
    low = gpu_values(model, np.clip(busy - spread, 0.0, 1.0), memory)
    high = gpu_values(model, np.clip(busy + spread, 0.0, 1.0), memory)
    counts = np.full_like(mean, max(step // SAMPLE_SECONDS, 1))
    return Points(METRICS, seconds, counts, mean, low, high)


def project_points(seed: int, gpus: int, memory_bytes: int, seconds: Floats, step: int) -> Points:
    """Return the points of a project that uses up to this number of GPUs."""
    noise = 0.12 * np.sin(seconds / 5003 + seed % 11) + 0.05 * np.sin(seconds / 701 + seed % 5)
    share = np.clip(demand(seconds) + noise, 0.0, 1.0)
    used = np.round(share * gpus)
    waiting = np.round(np.clip(share - 0.8, 0.0, 1.0) * gpus / 2)
    columns = {
        "allocated_percent": 100 * used,
        "allocated_memory_bytes": used * memory_bytes,
        "partitions": np.round(1.4 * used),
        "sessions": np.round(1.2 * used),
        "queued_allocations": waiting,
    }
    mean = np.column_stack([columns[name] for name in PROJECT_METRICS])
    counts = np.full_like(mean, max(step // SAMPLE_SECONDS, 1))
    return Points(PROJECT_METRICS, seconds, counts, mean, mean, mean)
