"""Transactional change log: the one way to announce changes of rows.

Services record a change inside the transaction that makes it. After the commit the log numbers
the change and passes it to its readers, in the order of commits. A rollback drops it. Readers of
pending changes also see a change when it is recorded and once more when it is rolled back.

The HTTP server process receives the committed changes of the controller as messages and passes them
to its own readers with `apply`.
"""

from __future__ import annotations

import enum
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from django.db import models, transaction
from django.db.models.signals import post_delete, post_save

from appliance.ipc import messages_pb2 as pb

NO_ID = UUID(int=0)


class Topic(enum.StrEnum):
    """The kind of the object that changed. The feed sends the objects of the first group."""

    ALARM = "alarm"
    ALLOCATION = "allocation"
    EVENT = "event"
    GPU = "gpu"
    NODE = "node"
    PARTITION = "partition"
    POOL = "pool"
    SESSION = "session"
    TASK = "task"

    ALLOCATION_HOLDINGS = "allocation_holdings"
    """State or partitions of an allocation, for the scheduler."""
    DESIRED_STATE = "desired_state"
    """Desired state of a node."""
    GPU_CAPACITY = "gpu_capacity"
    """Pool, presence or free capacity of a GPU, for the scheduler."""
    IDENTITY = "identity"
    """Users, groups, tokens, roles, role bindings or projects. Without an id."""
    NODE_CAPACITY = "node_capacity"
    """State, labels or endpoints of a node, for the scheduler."""
    NODE_INVENTORY = "node_inventory"
    """GPUs of a node, as its agent reported them."""
    NODE_REMOVED = "node_removed"
    SCHEDULING_RULES = "scheduling_rules"
    """Pools, quotas, reservations, projects, departments or users. Without an id."""
    SETTINGS = "settings"
    """Settings of the appliance. Without an id."""
    SERIES_END = "series_end"
    """End of the samples of a partition or session."""


OBJECT_TOPICS = (
    Topic.ALARM,
    Topic.ALLOCATION,
    Topic.EVENT,
    Topic.GPU,
    Topic.NODE,
    Topic.PARTITION,
    Topic.POOL,
    Topic.SESSION,
    Topic.TASK,
)
"""Topics of objects that REST shows."""

Audience = UUID | frozenset[UUID] | None
"""Project or projects whose members may see an object. None: all users with the privilege."""


@dataclass(frozen=True)
class Removal:
    """Permission to learn that an object is gone, kept because its row no longer exists."""

    privilege: str
    audience: Audience = None


@dataclass(frozen=True)
class Change:
    topic: Topic
    object_id: UUID = NO_ID
    removal: Removal | None = None
    """None while the object exists."""


Reader = Callable[[Change], None]
CommittedReader = Callable[[int, Change], None]


@dataclass
class _Subscriptions:
    committed: dict[Topic, list[Reader]] = field(default_factory=lambda: defaultdict(list))
    pending: dict[Topic, list[Reader]] = field(default_factory=lambda: defaultdict(list))
    all_committed: list[CommittedReader] = field(default_factory=list)


class _OpenTransaction(threading.local):
    """Uncommitted changes of this thread's transaction."""

    def __init__(self) -> None:
        self.changes: list[Change] = []


_subscriptions = _Subscriptions()
_open = _OpenTransaction()
_lock = threading.Lock()
_sequence = 0

feed_position: Callable[[], str] = str
"""Returns the position of the feed of this process. The feed, a higher layer, sets it."""


def subscribe(reader: Reader, *topics: Topic) -> Callable[[], None]:
    """Call `reader` with each committed change, on the thread that committed. It must not block.

    Return a function that ends the subscription.
    """
    for topic in topics:
        _subscriptions.committed[topic].append(reader)

    def unsubscribe() -> None:
        for topic in topics:
            _subscriptions.committed[topic].remove(reader)

    return unsubscribe


def subscribe_pending(reader: Reader, *topics: Topic) -> None:
    """Call `reader` inside the transaction with each change, and again if it is rolled back."""
    for topic in topics:
        _subscriptions.pending[topic].append(reader)


def subscribe_all(reader: CommittedReader) -> Callable[[], None]:
    """Call `reader` with the sequence number and each committed change.

    Return a function that ends the subscription.
    """
    _subscriptions.all_committed.append(reader)
    return partial(_subscriptions.all_committed.remove, reader)


def record(topic: Topic, object_id: UUID = NO_ID, removal: Removal | None = None) -> None:
    """Record a change in the current transaction."""
    change = Change(topic, object_id, removal)
    for reader in _subscriptions.pending[topic]:
        reader(change)
    _open.changes.append(change)
    transaction.on_commit(partial(_commit, change))


def record_all(topic: Topic, object_ids: Iterable[UUID]) -> None:
    """Record the same kind of change for each object."""
    for object_id in object_ids:
        record(topic, object_id)


def record_changes_of(*model_classes: type[models.Model], topic: Topic) -> None:
    """Record a change without an id whenever a row of these models is saved or deleted."""

    def receiver(**_: Any) -> None:
        record(topic)

    for model in model_classes:
        uid = f"change-log-{topic}-{model.__name__}"
        post_save.connect(receiver, sender=model, dispatch_uid=f"{uid}-save", weak=False)
        post_delete.connect(receiver, sender=model, dispatch_uid=f"{uid}-delete", weak=False)


def savepoint() -> int:
    """Return the position in the changes of this thread's transaction, for `roll_back`."""
    return len(_open.changes)


def roll_back(savepoint: int = 0) -> None:
    """Announce the changes since the savepoint to the readers of pending changes once more.

    Call after the rollback: readers then reload the rows.
    """
    changes = _open.changes[savepoint:]
    del _open.changes[savepoint:]
    for change in changes:
        for reader in _subscriptions.pending[change.topic]:
            reader(change)


def sequence() -> int:
    """Return the number of the last committed change."""
    return _sequence


def apply(change: Change) -> None:
    """Pass a change that another process committed to the readers of this process."""
    for reader in _subscriptions.committed[change.topic]:
        reader(change)


def to_message(sequence: int, change: Change) -> pb.ControllerMessage:
    """Encode a change, with its sequence number, for the HTTP server."""
    removal = None
    if change.removal is not None:
        audience = change.removal.audience
        projects = audience if isinstance(audience, frozenset) else {audience} - {None}
        removal = pb.Removal(
            privilege=change.removal.privilege,
            any_project=audience is None,
            projects=[p.bytes for p in projects if p is not None],
        )
    return pb.ControllerMessage(
        change=pb.Change(
            sequence=sequence,
            topic=str(change.topic),
            object_id=change.object_id.bytes,
            removal=removal,
        )
    )


def from_message(message: pb.Change) -> Change:
    """Decode a change of the controller, without its sequence number."""
    removal = None
    if message.HasField("removal"):
        projects = frozenset(UUID(bytes=p) for p in message.removal.projects)
        removal = Removal(
            message.removal.privilege, None if message.removal.any_project else projects
        )
    return Change(Topic(message.topic), UUID(bytes=message.object_id), removal)


def _commit(change: Change) -> None:
    global _sequence
    _open.changes.clear()
    apply(change)
    with _lock:
        _sequence += 1
        for reader in list(_subscriptions.all_committed):
            reader(_sequence, change)
