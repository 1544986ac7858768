"""Reads the books of a launcher.

They are the sizes of its grants, the shares in force at its arbiters, and the memory in use.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from nodes import launcher_layouts as layouts
from nodes.launcher_control import COMPUTE_MODES, LauncherControl, LauncherError

HEAD_BYTES = 48
"""Of the file of the grants: the boot and the time at which the launcher received them."""
GENERATION, ALLOCATION = Struct("<Q"), Struct("<16s32xI4xI4x")
"""The parts that are read of the layouts of grants: id, number of partitions and mode."""
NAMES = {int(mode): name for name, mode in COMPUTE_MODES.items()}
PAUSE_SECONDS = 0.02


class Granted(NamedTuple):
    percent: int
    memory_bytes: int
    mode: str


@dataclass(frozen=True)
class LauncherBooks:
    """Sizes and memory in use at one generation of the grants, by GPU and allocation."""

    generation: int
    granted: Mapping[UUID, Mapping[UUID, Granted]]
    held: Mapping[UUID, Mapping[UUID, int]]
    """Also of allocations without a grant whose sessions have not ended."""
    in_force: Mapping[UUID, set[tuple[int, str]]]
    """Percents and modes of the sessions of an allocation at the arbiter of their first GPU."""

    def excess(self, capacities: Mapping[UUID, int]) -> Iterator[str]:
        """Yield the GPUs of which more is granted than they have.

        A partition that has shrunk still takes what its programs hold.
        """
        for gpu, granted in self.granted.items():
            percent = sum(g.percent for g in granted.values())
            sizes = {i: g.memory_bytes for i, g in granted.items()}
            held = self.held[gpu]
            taken = {i: max(sizes.get(i, 0), held.get(i, 0)) for i in {*sizes, *held}}
            if percent > 100 or sum(taken.values()) > capacities[gpu]:
                yield f"generation {self.generation}, GPU {gpu}: {dict(granted)} takes {taken}"


@dataclass(frozen=True)
class Stored:
    """The file of the grants: its generation, and the sizes by allocation and GPU."""

    generation: int
    grants: Mapping[UUID, Mapping[UUID, Granted]]


def read_grants(file: Path) -> Stored:
    raw = file.read_bytes()[HEAD_BYTES:]
    (generation,) = GENERATION.unpack_from(raw)
    places = range(layouts.Grants.SIZE, len(raw), layouts.Allocation.SIZE)
    return Stored(generation, dict(read_grant(raw, at) for at in places))


def read_grant(raw: bytes, at: int) -> tuple[UUID, dict[UUID, Granted]]:
    allocation, partitions, mode = ALLOCATION.unpack_from(raw, at)
    name, size, first = NAMES[mode], layouts.Partition.SIZE, at + ALLOCATION.size
    places = range(first, first + partitions * size, size)
    found = [layouts.Partition.unpack(raw[place : place + size]) for place in places]
    granted = {
        UUID(bytes=p.gpu_uuid): Granted(p.compute_percent, p.memory_bytes, name) for p in found
    }
    return UUID(bytes=allocation), granted


GpusOf = dict[UUID, tuple[UUID, ...]]
"""The GPUs of allocations, in the order of their grants."""


def read_books(runtime: Path, known: GpusOf) -> LauncherBooks | None:
    """Return the books; None if the launcher does not answer, or its grants change meanwhile.

    `known` gets the allocations that have grants. An allocation without one is counted on the GPUs
    that it had, as long as it has open sessions.
    """
    try:
        stored = read_grants(runtime / "grants")
        listed = LauncherControl(runtime / "agent.sock").sessions()
        after = read_grants(runtime / "grants")
    except (LauncherError, FileNotFoundError):
        return None
    if not stored.generation == listed.generation == after.generation:
        return None
    charged: dict[UUID, list[int]] = defaultdict(lambda: [0] * layouts.MAX_DEVICES)
    in_force: dict[UUID, set[tuple[int, str]]] = defaultdict(set)
    for s in (s for s in listed.sessions if s.state != "closed"):
        sums = zip(charged[s.allocation_id], s.partition_bytes, strict=True)
        charged[s.allocation_id] = [a + b for a, b in sums]
        in_force[s.allocation_id].add((s.compute_percent, s.compute_mode))
    known.update({allocation: tuple(sizes) for allocation, sizes in stored.grants.items()})
    granted: dict[UUID, dict[UUID, Granted]] = defaultdict(dict)
    held: dict[UUID, dict[UUID, int]] = defaultdict(dict)
    for allocation, sizes in stored.grants.items():
        for gpu, size in sizes.items():
            granted[gpu][allocation] = size
    for allocation in stored.grants.keys() | {a for a in charged if a in known}:
        for index, gpu in enumerate(known[allocation]):
            held[gpu][allocation] = charged[allocation][index]
    return LauncherBooks(stored.generation, granted, held, in_force)


class Observer:
    """Reads the books again and again, and keeps what exceeds a GPU."""

    def __init__(self, runtime: Path, capacities: Mapping[UUID, int]) -> None:
        self._runtime, self._capacities = runtime, capacities
        self._is_over = threading.Event()
        self._known: GpusOf = {}
        self.generations: set[int] = set()
        """Of which the books have been seen."""
        self.excess: list[str] = []

    def read(self) -> LauncherBooks | None:
        return read_books(self._runtime, self._known)

    def run(self) -> None:
        while not self._is_over.wait(PAUSE_SECONDS):
            if books := self.read():
                self.generations.add(books.generation)
                self.excess += books.excess(self._capacities)

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(1) as thread:
            observed = thread.submit(self.run)
            try:
                yield
            finally:
                self._is_over.set()
            observed.result()
