"""Chart of a resize: what each tenant completed while 45/55 became 45/35/20, and 45/55 again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

from remoting.bench.partitions.resize_rows import (
    ADDED,
    KEPT,
    KERNEL_US,
    SHRUNK,
    SMALLER,
    third_tenant,
)
from remoting.bench.partitions.tenants import (
    MEMORY_BYTES,
    NOTHING,
    Bench,
    Sample,
    samples,
    tenants,
)

EVERY_MS = 500
SETTLE_SECONDS = 5.0
WIDTH, HEIGHT = 720, 260
LEFT, TOP, RIGHT, BOTTOM = 48, 12, 600, 228
MOST_PERCENT = 60
COLOURS = ("#4394e5", "#b98412", "#63993d")
NAMES = (f"{KEPT} %", f"{SHRUNK} %, then {SMALLER} %", f"{ADDED} %")
GREY = "#8a8a8a"
FONT = f'font-family="sans-serif" font-size="12" fill="{GREY}"'


@dataclass(frozen=True)
class Recording:
    """Percent of the completed work by tenant, in each interval; and when the sizes changed."""

    ends: list[float]
    """Of the intervals, in seconds since the first sample."""
    percents: Sequence[Sequence[float]]
    changes: list[float]


def record(bench: Bench, seconds: float) -> Recording:
    """Let a third tenant come and go, `seconds` before, with and after it. Blocks for that."""
    load = bench.load(KERNEL_US)
    environments = bench.node.share([KEPT, SHRUNK], MEMORY_BYTES)
    with (
        tenants(bench.node, bench.program, environments, [load, load]) as running,
        ThreadPoolExecutor(1) as sampler,
    ):
        time.sleep(SETTLE_SECONDS)
        count = round(3.2 * seconds * 1000 / EVERY_MS)
        sampled = sampler.submit(samples, bench.node, count, EVERY_MS)
        time.sleep(seconds)
        changes = [time.monotonic_ns()]
        with third_tenant(bench, load, MEMORY_BYTES):
            time.sleep(seconds)
            changes.append(time.monotonic_ns())
        found = sampled.result()
    first = found[0].nanoseconds
    return Recording(
        [(s.nanoseconds - first) / 1e9 for s in found[1:]],
        list(shares(found, [t.page for t in running])),
        [(c - first) / 1e9 for c in changes],
    )


def shares(found: Sequence[Sample], pages: Sequence[int]) -> Iterator[list[float]]:
    """Yield the percents of the tenants with these pages and of the third one."""
    for before, after in pairwise(found):
        done = {p: w.blocks - before.work.get(p, NOTHING).blocks for p, w in after.work.items()}
        known = [done[p] for p in pages]
        whole = max(1, sum(done.values()))
        yield [100 * blocks / whole for blocks in (*known, whole - sum(known))]


@dataclass(frozen=True)
class Axes:
    seconds: float

    def x(self, seconds: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * seconds / self.seconds, 1)

    def y(self, percent: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * percent / MOST_PERCENT, 1)


def svg(recording: Recording) -> str:
    """Return the chart. Its colours are legible on white and on black."""
    axes = Axes(recording.ends[-1])
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>'
    body = [*grid(axes), *changes(axes, recording), *curves(axes, recording)]
    return "\n".join([head, *body, "</svg>", ""])


def grid(axes: Axes) -> Iterator[str]:
    for percent in range(0, MOST_PERCENT + 1, 10):
        y = axes.y(percent)
        yield f'<path d="M{LEFT} {y}H{RIGHT}" stroke="{GREY}" stroke-opacity="0.25"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{percent} %</text>'
    for seconds in range(0, int(axes.seconds) + 1, 5):
        x = axes.x(seconds)
        yield f'<text x="{x}" y="{BOTTOM + 16}" text-anchor="middle">{seconds} s</text>'


def changes(axes: Axes, recording: Recording) -> Iterator[str]:
    for change in recording.changes:
        line = f"M{axes.x(change)} {TOP}V{BOTTOM}"
        yield f'<path d="{line}" stroke="{GREY}" stroke-dasharray="4 3"/>'


def curves(axes: Axes, recording: Recording) -> Iterator[str]:
    came, left = recording.changes
    for tenant, (name, colour) in enumerate(zip(NAMES, COLOURS, strict=True)):
        points = [
            (axes.x(end), axes.y(percents[tenant]))
            for end, percents in zip(recording.ends, recording.percents, strict=True)
            if tenant < len(NAMES) - 1 or came <= end <= left
        ]
        line = " ".join(f"{x},{y}" for x, y in points)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        x, y = points[-1]
        yield f'<text x="{x + 6}" y="{y + 4}" fill="{colour}">{name}</text>'
