"""Desired states of nodes: built from database rows, and sent to the gateway.

Each stream gets the state of its node first, and again when it has changed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from uuid import UUID

from django.db import Error

from appliance.allocations.models import HOLDING, Partition, SuspensionState
from appliance.allocations.tickets import accepted_keys
from appliance.db.prepared import Select
from appliance.db.writer import run_each_in_savepoint, submit_write
from appliance.fleet.authorities import authorities
from appliance.inventory.generations import current_generation
from appliance.ipc.frames import Frame, Kind
from appliance.pools.isolation import LAYERS, IsolationLevel
from appliance.runtime.each import run_each
from appliance.runtime.failpoints import failpoint
from nodes.protocol import fleet_pb2

log = logging.getLogger(__name__)

MAX_STATES_PER_WRITE = 16
"""When many nodes change, other writes run between their desired states."""

States = dict[UUID, fleet_pb2.DesiredState]


class DesiredPartition(NamedTuple):
    """Columns of a partition, its GPU and its allocation; the fields are Django lookups."""

    allocation__state: str
    allocation_id: UUID
    allocation__project_id: UUID
    allocation__fence_epoch: int
    allocation__fence_counter: int
    allocation__granted_compute_mode: str
    gpu__uuid: UUID
    memory_bytes: int
    compute_percent: int
    allocation__placed_pool__required_isolation: str | None
    allocation__placed_pool__max_late_seconds: int | None
    allocation__suspension: str
    allocation__suspension_revision: int


WANTED: dict[str, str] = {
    SuspensionState.SUSPENDING: "suspend",
    SuspensionState.SUSPENDED: "hold",
    SuspensionState.WAITING: "hold",
    SuspensionState.RESUMING: "resume",
}
IDLE_WAIT_SECONDS = 30
"""Time that a session has to end its work before a suspension is abandoned."""
GRANTS = Select(
    lambda node_id: (
        Partition.objects.filter(gpu__node_id=node_id)
        .order_by("allocation_id", "position")
        .values_list(*DesiredPartition._fields)
    )
)


def build_desired_state(node_id: UUID) -> fleet_pb2.DesiredState:
    """Return the complete desired state of a node. Reads the database.

    The node ends every grant that the state does not contain.
    """
    state = fleet_pb2.DesiredState(
        generation=current_generation(node_id),
        ticket_keys=[
            fleet_pb2.TicketKey(
                id=key.key_id, public_key=key.public, node_secret=key.node_secret(node_id)
            )
            for key in accepted_keys()
        ],
        authorities=[bytes.fromhex(a.fingerprint) for a in authorities()],
        appliance_seconds=int(time.time()),
    )
    grants: dict[UUID, fleet_pb2.Grant] = {}
    for row in map(DesiredPartition._make, GRANTS.rows(node_id=node_id)):
        if row.allocation__state not in HOLDING:
            continue
        grant = grants.get(row.allocation_id)
        if grant is None:
            grant = grants[row.allocation_id] = grant_without_partitions(row)
        grant.partitions.append(
            fleet_pb2.Partition(
                gpu_uuid=row.gpu__uuid.bytes,
                memory_bytes=row.memory_bytes,
                compute_percent=row.compute_percent,
            )
        )
    state.grants.extend(grants.values())
    return state


def grant_without_partitions(row: DesiredPartition) -> fleet_pb2.Grant:
    isolation = row.allocation__placed_pool__required_isolation
    return fleet_pb2.Grant(
        allocation_id=row.allocation_id.bytes,
        tenant_id=row.allocation__project_id.bytes,
        fence_epoch=row.allocation__fence_epoch,
        fence_counter=row.allocation__fence_counter,
        compute_mode=row.allocation__granted_compute_mode,
        required_isolation=sorted(LAYERS[IsolationLevel(isolation or "any")]),
        max_late_seconds=row.allocation__placed_pool__max_late_seconds or 0,
        **desired_suspension(row.allocation__suspension, row.allocation__suspension_revision),
    )


def desired_suspension(suspension: str, revision: int) -> dict[str, Any]:
    """Return the fields of a grant about a suspension; none if nothing is desired."""
    if not (wanted := WANTED.get(suspension)):
        return {}
    return {
        "suspension": wanted,
        "suspension_revision": revision,
        "suspension_wait_seconds": IDLE_WAIT_SECONDS if wanted == "suspend" else 0,
    }


class DesiredStateSender:
    """Sends desired states over one connection to the gateway. Thread-safe.

    The writer thread builds them, because threads that take turns wait longer for the GIL than they
    work. One write for them is queued at a time; nodes that change meanwhile wait for the next one.
    """

    def __init__(self, send: Callable[[Frame], None]) -> None:
        self._send = send
        self._sent: dict[UUID, int | None] = {}
        """The sent generations of nodes that have had a stream; None if the next state is sent
        whatever its generation."""
        self._lock = threading.Lock()
        self._waiting: dict[UUID, None] = {}
        """Nodes whose generation may not be the sent one, in order."""
        self._is_queued = False
        """A write is queued or runs."""
        self._is_closed = False

    def begin(self, node_id: UUID) -> None:
        """Send the desired state of a node to its new stream."""
        self._sent[node_id] = None
        self._send_soon([node_id])

    def send_changed(self, node_id: UUID) -> None:
        """Send the desired state of a node that has changed, unless it has no stream.

        A database that has lost commits gives the sent generation to another state.
        """
        if node_id in self._sent:
            self.begin(node_id)

    def compare(self, generations: Mapping[UUID, int]) -> None:
        """Send the desired states whose generation is higher or lower than the sent one."""
        self._send_soon(
            n for n, present in generations.items() if self._sent.get(n, present) != present
        )

    def close(self) -> None:
        """Build and send nothing more, because the connection has ended."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def _send_soon(self, node_ids: Iterable[UUID]) -> None:
        with self._lock:
            self._waiting.update((node_id, None) for node_id in node_ids)
        self._queue_write()

    def _queue_write(self) -> None:
        with self._lock:
            if self._is_queued or self._is_closed or not self._waiting:
                return
            node_ids = list(islice(self._waiting, MAX_STATES_PER_WRITE))
            write = submit_write(partial(self._build, node_ids), must=True)
            self._is_queued = True
            for node_id in node_ids:
                del self._waiting[node_id]
        write.add_done_callback(self._send_built)

    def _build(self, node_ids: list[UUID]) -> States:
        """Build the desired states that were not sent. It has no effects, as it may run twice.

        Only an error of the database rolls back, which repeats the other writes of the transaction.
        """
        states: States = {}

        def build(node_id: UUID) -> None:
            if current_generation(node_id) != self._sent.get(node_id):
                states[node_id] = build_desired_state(node_id)

        def build_or_log(node_id: UUID) -> None:
            run_each("desired state", [node_id], build, propagates=(Error,))

        run_each_in_savepoint("reading of desired state", node_ids, build_or_log)
        return states

    def _send_built(self, write: Future[States]) -> None:
        """Send desired states after the commit. The next poll repeats those that failed.

        So it does each second where the database cannot read the rows of a node. That is cheap: on
        SQLite the writes of its transaction run twice, and the log names the node once.
        """
        try:
            states = {} if self._is_closed else write.result()
            send = partial(self._send_state, states)
            for node_id in run_each("sending of desired state", states, send):
                self._sent[node_id] = None
        except Exception:
            log.exception("desired states could not be built, the next poll repeats them")
        finally:
            with self._lock:
                self._is_queued = False
            self._queue_write()

    def _send_state(self, states: States, node_id: UUID) -> None:
        """Send the desired state of a node.

        The generation is set before the state is sent. If a stream begins between the two, it gets
        this state; if it begins before or after them, it causes another one.
        """
        state = states[node_id]
        frame = Frame(Kind.DESIRED_STATE, node=node_id.bytes, body=state.SerializeToString())
        self._sent[node_id] = state.generation
        self._send(frame)
        failpoint("state.sent")
