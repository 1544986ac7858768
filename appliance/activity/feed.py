"""The live feed's heart: who changed what, in order, to every socket that may see it. No database, no socket: both are given."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction

from appliance.told import in_web

log = logging.getLogger(__name__)

MAX_KEPT = 4096
"""Changes that a socket which comes back may still catch up with."""
KEPT_SECONDS = 120.0
"""So long changes are kept after the last socket went, for it to come back to."""
MAX_QUEUED = 1024
"""Changes that wait for a slow socket; one more and it is told to read everything again."""


Audience = UUID | frozenset[UUID] | None
"""The project, or projects, whose people may see it; None: all who have the privilege anywhere."""


@dataclass(frozen=True, eq=False)
class Change:
    """`row` is what REST shows of the object, or None when it is gone."""

    sequence: int
    kind: str
    id: str
    privilege: str
    audience: Audience
    row: Mapping[str, Any] | None

    @cached_property
    def text(self) -> str:
        """As JSON: encoded once, however many sockets get it."""
        return orjson.dumps(
            {"sequence": self.sequence, "kind": self.kind, "id": self.id, "row": self.row},
            default=str,
        ).decode()


class Batch:
    """Changes that came together and that one scope sees: made and encoded once for all its sockets."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self.changes: dict[tuple[str, str], Change] = {}
        for c in changes:
            self.changes.pop((c.kind, c.id), None)  # its newest place in the order, not its first
            self.changes[c.kind, c.id] = c

    def with_newer(self, newer: Batch) -> Batch:
        """The newest of each object, in order of sequence."""
        rest = [c for key, c in self.changes.items() if key not in newer.changes]
        return Batch([*rest, *newer.changes.values()])

    @cached_property
    def frame(self) -> str:
        return (
            '{"type": "changes", "items": ['
            + ",".join(c.text for c in self.changes.values())
            + "]}"
        )


@dataclass(frozen=True)
class Scope:
    """What one user sees: privileges on the whole appliance, and those of each project."""

    everywhere: frozenset[str]
    by_project: Mapping[UUID, frozenset[str]]

    def __hash__(self) -> int:
        return hash((self.everywhere, frozenset(self.by_project)))

    def sees(self, privilege: str, audience: Audience) -> bool:
        if privilege in self.everywhere:
            return True
        if audience is None:
            return any(privilege in granted for granted in self.by_project.values())
        projects = audience if isinstance(audience, frozenset) else (audience,)
        return any(privilege in self.by_project.get(p, ()) for p in projects)


@dataclass(eq=False)
class Subscriber:
    """One socket's side: a bounded queue of changes, and the newest sample of each GPU that it asked for."""

    loop: asyncio.AbstractEventLoop
    scope: Scope
    gpus: frozenset[str] = frozenset()
    waiting: Batch | None = None
    """The newest of each object, in order of sequence."""
    samples: dict[str, str] = field(default_factory=dict)
    """GPU id to its newest sample, as JSON."""
    overflown: bool = False

    def __post_init__(self) -> None:
        self.wake = asyncio.Event()
        self.sampled = asyncio.Event()

    def offer(self, batch: Batch) -> None:
        """On the loop; of what its scope sees."""
        if not batch.changes:
            return
        self.waiting = self.waiting.with_newer(batch) if self.waiting else batch
        if len(self.waiting.changes) > MAX_QUEUED:
            self.waiting, self.overflown = None, True
        self.wake.set()

    def take(self) -> Batch | None:
        """What waits; then nothing does."""
        ready, self.waiting = self.waiting, None
        return ready

    def offer_samples(self, samples: Mapping[str, str]) -> None:
        """On the loop; by GPU. The newest of each waits; older ones that were not sent yet are dropped."""
        self.samples |= samples
        self.sampled.set()

    def samples_frame(self) -> str:
        """What waits, as one message; then nothing does."""
        ready, self.samples = self.samples, {}
        self.sampled.clear()
        return samples_frame({gpu_id: f"[{sample}]" for gpu_id, sample in ready.items()})


def samples_frame(samples: Mapping[str, str]) -> str:
    """GPU id to its samples, as a JSON array."""
    return (
        '{"type": "samples", "gpus": {'
        + ",".join(f'"{gpu_id}":{array}' for gpu_id, array in samples.items())
        + "}}"
    )


NO_PROJECT = UUID(int=0)
"""Of what only those see whose privilege covers the whole appliance."""

Reader = Callable[[Sequence[UUID]], Iterable[tuple[UUID, str, Audience, Mapping[str, Any]]]]
"""Ids to (id, privilege that it takes, audience, row) of those that are still there. Reads the database once for all of them."""

Gone = tuple[str, Audience]
"""Who may learn that an object is no longer there."""

PUBLISH_SECONDS = 0.25
SOCKETS_AT_FULL_PACE = 75
"""With more, changes are told less often, so that the work stays the same: once a second with 300."""

Found = tuple[str, str, str, Audience, Mapping[str, Any] | None]
"""Kind, id, privilege, audience, row."""


class Hub:
    def __init__(self, say: Callable[[str, UUID, Gone | None], None] | None = None) -> None:
        """`say`: makes the call of `publish`, perhaps in another process."""
        self._say = say or self.publish
        self.epoch = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._sequence = 0
        self._kept: deque[Change] = deque(maxlen=MAX_KEPT)
        self._subscribers: set[Subscriber] = set()
        self._left_at = -math.inf
        self._readers: dict[str, Reader] = {}
        self._listeners: dict[
            tuple[str, UUID], list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
        ] = {}
        self._watchers: dict[str, set[Subscriber]] = {}
        self._pending: dict[tuple[str, UUID], Gone | None] = {}
        self._noted = threading.Event()
        self._publisher: threading.Thread | None = None
        self.history: Callable[[str], str] = lambda gpu_id: ""
        """What telemetry keeps of a GPU in memory, as a JSON array of samples; empty when that is nothing."""
        self.visible: Callable[[Any, Collection[str]], set[str]] = lambda user, gpus: set()
        """Which of these GPUs the user may watch. Reads the database."""

    def register(self, kind: str, reader: Reader) -> None:
        self._readers[kind] = reader

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self._readers)

    @property
    def sequence(self) -> int:
        return self._sequence

    def changed(self, kind: str, object_id: UUID) -> None:
        """Call inside the transaction; what is committed is read and sent."""
        if kind in self._readers:
            transaction.on_commit(lambda: self._say(kind, object_id, None))

    def gone(self, kind: str, object_id: UUID, privilege: str, audience: Audience = None) -> None:
        transaction.on_commit(lambda: self._say(kind, object_id, (privilege, audience)))

    @contextmanager
    def listening(self, kind: str, object_id: UUID) -> Iterator[asyncio.Event]:
        """On a loop: the event is set after each committed change of one object."""
        listener = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._listeners.setdefault((kind, object_id), []).append(listener)
        try:
            yield listener[1]
        finally:
            with self._lock:
                self._listeners[kind, object_id].remove(listener)
                if not self._listeners[kind, object_id]:
                    del self._listeners[kind, object_id]

    def publish(self, kind: str, object_id: UUID, gone: Gone | None) -> None:
        """Nobody listens: nothing is read, and whoever comes reads all of it anyway."""
        with self._lock:
            for loop, event in self._listeners.get((kind, object_id), ()):
                loop.call_soon_threadsafe(event.set)
            if not self._subscribers and time.monotonic() > self._left_at + KEPT_SECONDS:
                self._sequence += 1
                self._kept.clear()
                return
            if self._publisher is not None:
                self._pending[kind, object_id] = gone
                self._noted.set()
                return
        self._send(self._found({(kind, object_id): gone}))

    def start_publisher(self) -> None:
        """From now on rows are read on a thread of its own: whoever changes something need not wait for the browsers."""
        self._publisher = threading.Thread(target=self._publish_noted, name="feed", daemon=True)
        self._publisher.start()

    def _publish_noted(self) -> None:
        """The first change after a pause at once, the others together."""
        while True:
            self._noted.wait()
            self._noted.clear()
            with self._lock:
                noted, self._pending = self._pending, {}
                sockets = len(self._subscribers)
            self._send(self._found(noted))
            time.sleep(PUBLISH_SECONDS * max(1.0, sockets / SOCKETS_AT_FULL_PACE))

    def _found(self, noted: Mapping[tuple[str, UUID], Gone | None]) -> list[Found]:
        """What is there of what was noted, and what is gone."""
        ids: dict[str, list[UUID]] = {}
        for (kind, object_id), gone in noted.items():
            if gone is None:
                ids.setdefault(kind, []).append(object_id)
        found: list[Found] = [
            row for kind, wanted in ids.items() for row in self._read(kind, wanted)
        ]
        return found + [
            (kind, str(object_id), *gone, None) for (kind, object_id), gone in noted.items() if gone
        ]

    def _read(self, kind: str, ids: Sequence[UUID]) -> list[Found]:
        try:
            return [
                (kind, str(object_id), privilege, audience, row)
                for object_id, privilege, audience, row in self._readers[kind](ids)
            ]
        except Exception:
            log.exception("%d of kind %s are not told to the browsers", len(ids), kind)
            return []

    def _send(self, found: Iterable[Found]) -> None:
        with self._lock:
            changes = []
            for kind, object_id, privilege, audience, row in found:
                self._sequence += 1
                changes.append(Change(self._sequence, kind, object_id, privilege, audience, row))
            self._kept.extend(changes)
            for loop in {s.loop for s in self._subscribers} if changes else ():
                loop.call_soon_threadsafe(
                    self._deliver, [s for s in self._subscribers if s.loop is loop], changes
                )

    @staticmethod
    def _deliver(subscribers: Iterable[Subscriber], changes: Sequence[Change]) -> None:
        seen: dict[Scope, Batch] = {}
        for s in subscribers:
            batch = seen.get(s.scope)
            if batch is None:
                batch = seen[s.scope] = Batch(
                    c for c in changes if s.scope.sees(c.privilege, c.audience)
                )
            s.offer(batch)

    def sampled(
        self, samples: Mapping[str, list[float]], row_of: Callable[[list[float]], list[Any]]
    ) -> None:
        """GPU id to its sample; `row_of` makes the row that is sent of it, once and only if somebody watches."""
        with self._lock:
            watched = {
                gpu_id: tuple(self._watchers[gpu_id])
                for gpu_id in samples
                if gpu_id in self._watchers
            }
        wanted: dict[Subscriber, dict[str, str]] = {}
        for gpu_id, subscribers in watched.items():
            encoded = orjson.dumps(row_of(samples[gpu_id])).decode()
            for s in subscribers:
                wanted.setdefault(s, {})[gpu_id] = encoded
        for s, found in wanted.items():
            s.loop.call_soon_threadsafe(s.offer_samples, found)

    def watch(self, subscriber: Subscriber, gpus: Iterable[str]) -> set[str]:
        """Replaces what the socket watches; those that are new to it."""
        with self._lock:
            wanted, had = frozenset(gpus), subscriber.gpus
            for gpu_id in had - wanted:
                self._watchers[gpu_id].discard(subscriber)
                if not self._watchers[gpu_id]:
                    del self._watchers[gpu_id]
            for gpu_id in wanted - had:
                self._watchers.setdefault(gpu_id, set()).add(subscriber)
            subscriber.gpus = wanted
            return set(wanted - had)

    def join(self, subscriber: Subscriber, epoch: str = "", since: int = -1) -> bool:
        """Adds a socket. True: it was given all that it missed since `since`; False: it must read everything afresh."""
        with self._lock:
            self._subscribers.add(subscriber)
            oldest = self._kept[0].sequence if self._kept else self._sequence + 1
            known = epoch == self.epoch and oldest - 1 <= since <= self._sequence
            if known:
                self._deliver([subscriber], [c for c in self._kept if c.sequence > since])
            return known

    def leave(self, subscriber: Subscriber) -> None:
        self.watch(subscriber, ())
        with self._lock:
            self._subscribers.discard(subscriber)
            self._left_at = time.monotonic()


@in_web
def publish(kind: str, object_id: UUID, gone: Gone | None) -> None:
    """Where the sockets are."""
    hub.publish(kind, object_id, gone)


hub = Hub(publish)
