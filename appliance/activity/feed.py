"""The feed: committed changes and samples for WebSocket and server-sent-event clients.

The hub numbers changed objects, reads their rows in batches, and queues them for each subscriber
that has the privilege to see them. It contains no sockets; rows come from registered readers.
With no subscribers it performs no queries.
"""

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
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from uuid import UUID

import orjson

from appliance.accounts.bindings import InventoryGrant
from appliance.db import change_log
from appliance.db.change_log import NO_ID, OBJECT_TOPICS, Audience, Change, Removal
from appliance.runtime.background import thread_of

log = logging.getLogger(__name__)

MAX_BUFFERED_CHANGES = 4096
"""Changes kept for reconnecting clients."""
BUFFER_SECONDS_WITHOUT_SUBSCRIBERS = 120.0
MAX_QUEUED_CHANGES = 1024
"""Limit of a subscriber's queue; beyond it the client must reload (`resync`)."""
PUBLISH_INTERVAL_SECONDS = 0.25
SUBSCRIBERS_AT_FULL_RATE = 75
"""With more subscribers the interval grows in proportion, to 1 s with 300."""
NO_PROJECT = NO_ID
"""Audience of objects that only appliance-wide privileges permit to see."""


class GuardedNames(tuple[tuple[str, Audience], ...]):
    """Value of a row: names, each with its audience. A scope is sent those that it sees."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class ObjectChange:
    """One numbered change of an object. `row` is its REST representation, or None if it is gone."""

    sequence: int
    kind: str
    id: str
    privilege: str
    audience: Audience
    row: Mapping[str, Any] | None

    def seen_by(self, scope: Scope) -> ObjectChange:
        """Return the change with those of its `GuardedNames` that the scope sees."""
        names = {k: v for k, v in (self.row or {}).items() if isinstance(v, GuardedNames)}
        if not names:
            return self
        seen = {k: [n for n, of in v if scope.sees(self.privilege, of)] for k, v in names.items()}
        return replace(self, row={**(self.row or {}), **seen})

    @cached_property
    def text(self) -> str:
        """The change as JSON, encoded once for all subscribers, or for those of one scope."""
        return orjson.dumps(
            {"sequence": self.sequence, "kind": self.kind, "id": self.id, "row": self.row},
            default=str,
        ).decode()


class Batch:
    """The latest change of each object, in order of sequence, visible to one scope.

    Subscribers with the same scope share the batch and its encoding.
    """

    def __init__(self, changes: Iterable[ObjectChange]) -> None:
        self.changes: dict[tuple[str, str], ObjectChange] = {}
        for c in changes:
            self.changes.pop((c.kind, c.id), None)  # move the object to its latest position
            self.changes[c.kind, c.id] = c

    def merge(self, newer: Batch) -> Batch:
        rest = [c for key, c in self.changes.items() if key not in newer.changes]
        return Batch([*rest, *newer.changes.values()])

    @cached_property
    def frame(self) -> str:
        """The batch as one JSON message."""
        return (
            '{"type": "changes", "items": ['
            + ",".join(c.text for c in self.changes.values())
            + "]}"
        )


@dataclass(frozen=True)
class Scope:
    """Privileges of a user: on the whole appliance, by project, and in the inventory.

    Those in the inventory show no changes, but they permit to watch GPUs.
    """

    everywhere: frozenset[str]
    by_project: Mapping[UUID, frozenset[str]]
    inventory: frozenset[InventoryGrant] = frozenset()

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
    """Queue of one client: changes, and the latest unsent sample of each watched GPU.

    All methods run on `loop`.
    """

    loop: asyncio.AbstractEventLoop
    scope: Scope
    gpus: frozenset[str] = frozenset()
    waiting: Batch | None = None
    samples: dict[str, str] = field(default_factory=dict)
    """GPU id to its newest sample, as JSON."""
    overflown: bool = False

    def __post_init__(self) -> None:
        self.wake = asyncio.Event()
        self.sampled = asyncio.Event()

    def offer(self, batch: Batch) -> None:
        """Queue changes. On overflow, discard the queue and set `overflown`."""
        if not batch.changes:
            return
        self.waiting = self.waiting.merge(batch) if self.waiting else batch
        if len(self.waiting.changes) > MAX_QUEUED_CHANGES:
            self.waiting, self.overflown = None, True
        self.wake.set()

    def take(self) -> Batch | None:
        """Remove and return the queued changes."""
        ready, self.waiting = self.waiting, None
        return ready

    def offer_samples(self, samples: Mapping[str, str]) -> None:
        """Queue samples by GPU, replacing unsent older ones."""
        self.samples |= samples
        self.sampled.set()

    def samples_frame(self) -> str:
        """Remove the queued samples and return them as one message."""
        ready, self.samples = self.samples, {}
        self.sampled.clear()
        return samples_frame({gpu_id: f"[{sample}]" for gpu_id, sample in ready.items()})


def samples_frame(samples: Mapping[str, str]) -> str:
    """Encode a message of samples. `samples` maps a GPU id to its samples as a JSON array."""
    return (
        '{"type": "samples", "gpus": {'
        + ",".join(f'"{gpu_id}":{array}' for gpu_id, array in samples.items())
        + "}}"
    )


RowReader = Callable[[Sequence[UUID]], Iterable[tuple[UUID, str, Audience, Mapping[str, Any]]]]
"""Maps ids to (id, privilege, audience, row) of existing objects with one read."""

FoundRow = tuple[str, str, str, Audience, Mapping[str, Any] | None]
"""Kind, id, privilege, audience and row; the row of a removed object is None."""


class Hub:
    """Publishes changes and samples to subscribers. Thread-safe."""

    def __init__(self) -> None:
        self.epoch = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._sequence = 0
        self._buffer: deque[ObjectChange] = deque(maxlen=MAX_BUFFERED_CHANGES)
        self._subscribers: set[Subscriber] = set()
        self._last_left_at = -math.inf
        self._readers: dict[str, RowReader] = {}
        self._listeners: dict[
            tuple[str, UUID], list[tuple[asyncio.AbstractEventLoop, asyncio.Event]]
        ] = {}
        self._watchers: dict[str, set[Subscriber]] = {}
        self._pending: dict[tuple[str, UUID], Removal | None] = {}
        self._has_pending = threading.Event()
        self._publisher: threading.Thread | None = None
        self.history: Callable[[str], str] = lambda gpu_id: ""
        """Returns the samples of a GPU in memory as a JSON array; empty if there are none."""
        self.visible: Callable[[Any, Collection[str]], set[str]] = lambda user, gpus: set()
        """Returns those of the GPUs that the user may watch. Reads the database."""

    def register(self, kind: str, reader: RowReader) -> None:
        self._readers[kind] = reader

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(self._readers)

    @property
    def sequence(self) -> int:
        return self._sequence

    @property
    def position(self) -> str:
        """The epoch and the newest sequence number, as `since` of GET /watch takes them."""
        return f"{self.epoch}.{self._sequence}"

    @contextmanager
    def listening(self, kind: str, object_id: UUID) -> Iterator[asyncio.Event]:
        """Yield an event of the running loop that each committed change of the object sets."""
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

    def publish(self, change: Change) -> None:
        """Publish a committed change.

        Without subscribers nothing is read: a new client loads everything anyway.
        """
        key = (str(change.topic), change.object_id)
        with self._lock:
            for loop, event in self._listeners.get(key, ()):
                loop.call_soon_threadsafe(event.set)
            expires_at = self._last_left_at + BUFFER_SECONDS_WITHOUT_SUBSCRIBERS
            if not self._subscribers and time.monotonic() > expires_at:
                self._sequence += 1
                self._buffer.clear()
                return
            if self._publisher is not None:
                self._pending[key] = change.removal
                self._has_pending.set()
                return
        self._send(self._find({key: change.removal}))

    def start_publisher(self) -> None:
        """Read rows on a thread of their own from now on, so that `publish` never blocks."""
        self._publisher = thread_of("feed", self._publish_pending)
        self._publisher.start()

    def _publish_pending(self) -> None:
        """Publish the first change after a pause at once, later ones in batches."""
        while True:
            self._has_pending.wait()
            self._has_pending.clear()
            with self._lock:
                pending, self._pending = self._pending, {}
                subscribers = len(self._subscribers)
            self._send(self._find(pending))
            time.sleep(PUBLISH_INTERVAL_SECONDS * max(1.0, subscribers / SUBSCRIBERS_AT_FULL_RATE))

    def _find(self, pending: Mapping[tuple[str, UUID], Removal | None]) -> list[FoundRow]:
        ids: dict[str, list[UUID]] = {}
        for (kind, object_id), removal in pending.items():
            if removal is None and kind in self._readers:
                ids.setdefault(kind, []).append(object_id)
        found: list[FoundRow] = [
            row for kind, wanted in ids.items() for row in self._read(kind, wanted)
        ]
        return found + [
            (kind, str(object_id), removal.privilege, removal.audience, None)
            for (kind, object_id), removal in pending.items()
            if removal
        ]

    def _read(self, kind: str, ids: Sequence[UUID]) -> list[FoundRow]:
        try:
            return [
                (kind, str(object_id), privilege, audience, row)
                for object_id, privilege, audience, row in self._readers[kind](ids)
            ]
        except Exception:
            log.exception("feed: %d changes of kind %s are lost: reading failed", len(ids), kind)
            return []

    def _send(self, found: Iterable[FoundRow]) -> None:
        with self._lock:
            changes = []
            for kind, object_id, privilege, audience, row in found:
                self._sequence += 1
                changes.append(
                    ObjectChange(self._sequence, kind, object_id, privilege, audience, row)
                )
            self._buffer.extend(changes)
            for loop in {s.loop for s in self._subscribers} if changes else ():
                loop.call_soon_threadsafe(
                    self._deliver, [s for s in self._subscribers if s.loop is loop], changes
                )

    @staticmethod
    def _deliver(subscribers: Iterable[Subscriber], changes: Sequence[ObjectChange]) -> None:
        visible: dict[Scope, Batch] = {}
        for s in subscribers:
            batch = visible.get(s.scope)
            if batch is None:
                batch = visible[s.scope] = Batch(
                    c.seen_by(s.scope) for c in changes if s.scope.sees(c.privilege, c.audience)
                )
            s.offer(batch)

    def publish_samples(
        self, samples: Mapping[str, list[float]], row_of: Callable[[list[float]], list[Any]]
    ) -> None:
        """Publish the newest sample of each GPU to the subscribers that watch it.

        `row_of` makes the row to send; it runs once per watched GPU.
        """
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
        """Replace the GPUs that the subscriber watches. Return the newly watched ones."""
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
        """Add a subscriber.

        Return True if it received all changes after `since` of this epoch, and False if some have
        been discarded, so that the client must reload.
        """
        with self._lock:
            self._subscribers.add(subscriber)
            oldest = self._buffer[0].sequence if self._buffer else self._sequence + 1
            known = epoch == self.epoch and oldest - 1 <= since <= self._sequence
            if known:
                self._deliver([subscriber], [c for c in self._buffer if c.sequence > since])
            return known

    def leave(self, subscriber: Subscriber) -> None:
        self.watch(subscriber, ())
        with self._lock:
            self._subscribers.discard(subscriber)
            self._last_left_at = time.monotonic()


hub = Hub()
change_log.subscribe(hub.publish, *OBJECT_TOPICS)
change_log.feed_position = lambda: hub.position
