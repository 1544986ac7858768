"""Sends desired states to the gateway: the first of each stream, and again when they change."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from itertools import islice
from uuid import UUID

from django.db import Error

from appliance.db.writer import run_each_in_savepoint, submit_write
from appliance.fleet.desired_state import build_desired_state
from appliance.inventory.generations import current_generation
from appliance.ipc.frames import Frame, Kind
from appliance.runtime.each import run_each
from appliance.runtime.failpoints import failpoint
from nodes.protocol import fleet_pb2

log = logging.getLogger(__name__)

MAX_STATES_PER_WRITE = 16
"""When many nodes change, other writes run between their desired states."""

States = dict[UUID, fleet_pb2.DesiredState]


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
        """Whether a write is queued or runs."""
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
