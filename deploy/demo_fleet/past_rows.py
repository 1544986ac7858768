"""Rows of the invented past: chunks of series, ended allocations and cleared alarms.

The resolutions of the chunks are those in which the console shows the past: hours for 30 days,
minutes for two days, and finer ones for the last hours. Needs Django; blocks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from uuid import UUID

import numpy as np
from django.db import transaction

from appliance.accounts.models import Project, User
from appliance.activity.events import SYSTEM
from appliance.alarms.models import Alarm, AlarmDefinition, AlarmEntry, AlarmState
from appliance.allocations.models import Allocation, AllocationState, Hold
from appliance.db.identifiers import first_id_at
from appliance.inventory.models import Gpu
from appliance.pools.models import Pool
from appliance.telemetry.chunks import build_chunk
from appliance.telemetry.models import Chunk
from appliance.telemetry.rollups import Floats, Points
from appliance.telemetry.tiers import TIERS
from deploy.demo_fleet.hardware import GPUS_PER_NODE, MODELS
from deploy.demo_fleet.past import DAY_SECONDS, SAMPLE_SECONDS, gpu_points, project_points
from deploy.demo_fleet.people import NAMES, POOL
from deploy.demo_fleet.prepare import USERS

DAYS = 30
TIER_SECONDS = (0, 3 * 3600, 2 * DAY_SECONDS, DAYS * DAY_SECONDS)
"""Period before now for which each tier is written, at least."""
WAIT_SECONDS = 120.0
SERIES_A_COMMIT = 4
"""The appliance writes samples each second; between two commits it has its turn."""
PAST = {"demo": "past"}
"""Labels of the allocations."""
ALLOCATIONS_A_DAY, ALARMS_A_DAY = 24, 2
PAST_ALARMS = (
    ("GPU hot", "{} is at 87 °C."),
    ("Fan at its limit", "{} runs its fan at 99 %."),
    ("GPU engine fault (XID)", "GPU {} reported XID 69, class engine."),
)
"""Definitions that come with the product, and messages."""

Source = Callable[[Floats, int], Points]
"""Returns the points at these times, each for a step of this length."""


def write_past(nodes: int) -> None:
    """Write the past of all simulated GPUs and of the projects of their users."""
    gpus = wait_for_gpus(nodes * GPUS_PER_NODE)
    projects = list(Project.objects.filter(name__in=set(USERS.values())))
    now = time.time()
    sources = gpu_sources(gpus) | project_sources(projects, gpus)
    missing = [(pk, source) for pk, source in sources.items() if not has_past(pk, now)]
    for n in range(0, len(missing), SERIES_A_COMMIT):
        batch = missing[n : n + SERIES_A_COMMIT]
        Chunk.objects.bulk_create([c for pk, source in batch for c in chunks_of(pk, now, source)])
    if not Allocation.objects.filter(labels=PAST).exists():
        with transaction.atomic():
            write_allocations(projects, now)
            write_alarms(gpus, now)


def wait_for_gpus(count: int) -> list[Gpu]:
    """Block until so many GPUs of simulated nodes exist. Raises SystemExit after two minutes."""
    end = time.monotonic() + WAIT_SECONDS
    while (
        len(gpus := list(Gpu.objects.filter(node__simulated=True).select_related("node", "pool")))
        < count
    ):
        if time.monotonic() > end:
            raise SystemExit(f"Only {len(gpus)} of {count} simulated GPUs appeared.")
        time.sleep(0.5)
    return gpus


def has_past(series_id: UUID, now: float) -> bool:
    earlier = Chunk.objects.filter(series_id=series_id, start_seconds__lt=now - DAY_SECONDS)
    return earlier.exists()


def gpu_sources(gpus: Sequence[Gpu]) -> dict[UUID, Source]:
    models = {m.name: m for m in MODELS}
    return {gpu.pk: partial(gpu_points, gpu.uuid.int, models[gpu.model]) for gpu in gpus}


def project_sources(projects: Sequence[Project], gpus: Sequence[Gpu]) -> dict[UUID, Source]:
    share, memory = len(gpus) // len(projects), gpus[0].memory_bytes
    return {p.pk: partial(project_points, p.pk.int, share, memory) for p in projects}


def chunks_of(series_id: UUID, now: float, source: Source) -> Iterator[Chunk]:
    """Yield the unsaved chunks of one series.

    Each tier ends at a whole chunk, where the next finer one begins; the finest ends now.
    """
    coarser_end = now
    for tier, length in reversed(list(zip(TIERS, TIER_SECONDS, strict=True))):
        whole = tier.chunk_seconds
        end = now // whole * whole if tier.resolution_seconds else now
        begin = min(now - length, coarser_end) // whole * whole
        step = tier.resolution_seconds or SAMPLE_SECONDS
        points = source(np.arange(begin, end, step), tier.resolution_seconds)
        for start in np.arange(begin, end, whole):
            if len(part := points.between(start, start + whole)):
                yield build_chunk(series_id, tier, part)
        coarser_end = end


def write_allocations(projects: Sequence[Project], now: float) -> None:
    """Write ended allocations, some of which waited long for their GPUs."""
    rng, pool = random.Random(11), Pool.objects.get(name=POOL)
    members = list(User.objects.filter(username__in=USERS))
    by_name = {p.name: p for p in projects}
    rows = []
    for _ in range(ALLOCATIONS_A_DAY * DAYS):
        owner, created = rng.choice(members), now - rng.uniform(3600, DAYS * DAY_SECONDS)
        active = created + rng.choice((1.5, 2.0, 4.0, 30.0, 400.0)) * rng.random()
        ended = min(active + rng.uniform(300, 14_400), now - 60)
        rows.append(
            Allocation(
                id=id_at(created, rng),
                owner=owner,
                project=by_name[USERS[owner.username]],
                pool=pool,
                placed_pool=pool,
                name=f"{rng.choice(NAMES)}-{rng.randrange(1000)}",
                state=AllocationState.RELEASED,
                gpu_count=rng.choice((1, 1, 1, 2, 4, 8)),
                percent=rng.choice((25, 50, 100, 100)),
                priority=rng.choice((20, 50, 50, 80)),
                hold=Hold.LIFETIME,
                end_reason="Its lifetime has passed.",
                labels=PAST,
                created_at=to_time(created),
                active_at=to_time(active),
                ended_at=to_time(ended),
            )
        )
    Allocation.objects.bulk_create(rows, batch_size=200)


def write_alarms(gpus: Sequence[Gpu], now: float) -> None:
    """Write alarms that were raised and cleared."""
    rng = random.Random(12)
    for n in range(ALARMS_A_DAY * DAYS):
        name, message = PAST_ALARMS[n % len(PAST_ALARMS)]
        definition = AlarmDefinition.objects.filter(name=name).first()
        if definition is not None:
            raised = now - rng.uniform(3600, DAYS * DAY_SECONDS)
            write_alarm(definition, rng.choice(gpus), message, raised, rng)


def write_alarm(
    definition: AlarmDefinition, gpu: Gpu, message: str, raised: float, rng: random.Random
) -> None:
    cleared = to_time(raised + rng.uniform(120, 3000))
    alarm = Alarm.objects.create(
        id=id_at(raised, rng),
        definition=definition,
        name=definition.name,
        severity=definition.severity,
        state=AlarmState.CLEARED,
        object_kind=definition.object_kind,
        object_id=gpu.pk,
        object_name=gpu.short_name,
        path=gpu.path,
        node=gpu.node,
        pool=gpu.pool,
        message=message.format(gpu.short_name),
        created_at=to_time(raised),
        cleared_at=cleared,
    )
    steps = (("raised", alarm.message, alarm.created_at), ("cleared", "Condition ended.", cleared))
    for kind, text, at in steps:
        AlarmEntry.objects.create(
            id=id_at(at.timestamp(), rng),
            alarm=alarm,
            kind=kind,
            actor=SYSTEM,
            message=text,
            created_at=at,
        )


def to_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def id_at(seconds: float, rng: random.Random) -> UUID:
    """Return an identifier in the order of creation of that time (RFC 9562, version 7)."""
    first = first_id_at(to_time(seconds)).int
    tail = rng.getrandbits(12) << 64 | rng.getrandbits(62)
    return UUID(int=first | 0x7 << 76 | 0b10 << 62 | tail)
