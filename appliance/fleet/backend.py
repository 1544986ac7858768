"""The controller's end of the gateway: supervision, and requests of agents for the services."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from uuid import UUID

from appliance.activity.events import emit
from appliance.api.errors import ApplianceError
from appliance.db import change_log
from appliance.db.change_log import Change, Topic
from appliance.db.writer import fleet_pool, run_in_thread, submit_write, write_transaction
from appliance.fleet import auth, reports
from appliance.fleet.desired_state import DesiredStateSender
from appliance.fleet.gateway_options import GATEWAY_ENVIRONMENT, PORT_TAKEN, Options
from appliance.inventory import reports as inventory_reports
from appliance.inventory.generations import all_generations
from appliance.inventory.locks import lock_node
from appliance.inventory.models import Node
from appliance.ipc import frames, processes
from appliance.ipc.frames import Frame, Kind
from appliance.runtime import background
from appliance.runtime.failpoints import failpoint
from appliance.telemetry import reachability
from nodes.protocol import fleet_pb2

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Interval of polling generations. The change log only reduces the delay."""
START_SECONDS, STOP_SECONDS, RESTART_SECONDS = 60.0, 2.0, 0.5


class FleetBackend:
    """Starts the gateway, restarts it when it ends, and serves its requests."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._socket: socket.socket | None = None
        self._send_lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = background.thread_of("gateway", self._supervise)
        self._ready = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._states = DesiredStateSender(self.send)
        self._unfinished = reports.UnfinishedReports()
        self._admitted: dict[str, float] = {}
        """Serials of admitted certificates, with the time (monotonic)."""
        self._handlers: dict[Kind, Callable[[UUID, bytes], bytes]] = {
            Kind.ADMIT: self._admit,
            Kind.LOCK: self._lock,
            Kind.INVENTORY: self._inventory,
            Kind.REPORT: self._report,
        }

    def start(self) -> None:
        """Block until the gateway listens. Raises SystemExit if it does not start."""
        self._thread.start()
        if not self._ready.wait(START_SECONDS) or self._socket is None:
            if self._process is not None and self._process.poll() == PORT_TAKEN:
                raise SystemExit(
                    f"Port {self._options.port} on {self._options.address} is in use; "
                    "set BUSBAR_FLEET_PORT."
                )
            raise SystemExit("The gateway did not start; see its messages above.")

    def stop(self) -> None:
        self._stopping.set()
        if (connection := self._socket) is not None:
            processes.shut_down(connection)
        self._thread.join(STOP_SECONDS)

    def _supervise(self) -> None:
        while not self._stopping.is_set():
            self._process, connection = processes.start(
                lambda end: replace(self._options, pipe=end).arguments(),
                environment=GATEWAY_ENVIRONMENT,
            )
            processes.set_send_timeout(connection)
            self.serve(connection)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
            self._process.kill()
            status = self._process.wait()
            first, self._socket = not self._ready.is_set(), None
            self._ready.set()
            if first:
                return
            if not self._stopping.is_set():
                log.error(
                    "gateway: exited with status %d, restarting; agents will reconnect",
                    status,
                )
            self._stopping.wait(RESTART_SECONDS)

    def serve(self, connection: socket.socket) -> None:
        """Serve requests until the gateway closes the connection. Blocks."""
        send = partial(self._send, connection)
        with connection, contextlib.closing(DesiredStateSender(send)) as self._states:
            for frame in frames.read_frames(connection):
                if frame.kind is Kind.READY:
                    self._socket = connection
                    self._ready.set()
                elif frame.kind is Kind.HEARTBEATS:
                    for node in frames.split_ids(frame.body):
                        reachability.record_heartbeat(UUID(bytes=node))
                elif frame.kind is Kind.MESSAGE_REFUSED:
                    fleet_pool.submit(record_refusal, UUID(bytes=frame.node), frame.body.decode())
                elif frame.kind is Kind.DESIRED_STATE:
                    self._states.begin(UUID(bytes=frame.node))
                elif frame.kind is Kind.REPORT:
                    self._handle_on_writer(connection, frame)
                else:
                    fleet_pool.submit(self._handle, connection, frame)

    def _send(self, connection: socket.socket, frame: Frame) -> None:
        """Send a frame. A gateway that does not read for 5 s is disconnected and restarted."""
        try:
            with self._send_lock:
                connection.sendall(frame.encode())
        except OSError:
            processes.shut_down(connection)

    def send(self, frame: Frame) -> None:
        """Send a frame to the gateway; drop it while the gateway is restarting."""
        if (connection := self._socket) is not None:
            self._send(connection, frame)

    def _handle_on_writer(self, connection: socket.socket, request: Frame) -> None:
        """Run the request on the writer thread and reply after the commit.

        Threads that take turns wait longer for the GIL than they work.
        """
        future = submit_write(
            lambda: self._handlers[request.kind](UUID(bytes=request.node), request.body),
            must=True,
        )
        future.add_done_callback(lambda done: self._reply(connection, request, done.result))

    def _handle(self, connection: socket.socket, request: Frame) -> None:
        self._reply(
            connection,
            request,
            lambda: self._handlers[request.kind](UUID(bytes=request.node), request.body),
        )

    def _reply(
        self, connection: socket.socket, request: Frame, result: Callable[[], bytes]
    ) -> None:
        try:
            reply = Frame(Kind.REPLY, request.call, body=result())
        except ApplianceError as error:
            reply = Frame(Kind.ERROR, request.call, body=f"{error.code} {error.detail}".encode())
        except ValueError as error:
            reply = Frame(Kind.ERROR, request.call, body=f"invalid {error}".encode())
        except Exception:
            log.exception(
                "gateway: request %s of node %s failed", request.kind.name, request.node.hex()
            )
            reply = Frame(
                Kind.ERROR,
                request.call,
                body=b"internal The request failed; see the appliance's log.",
            )
        self._send(connection, reply)
        if request.kind is Kind.REPORT:
            failpoint("report.kept")

    def _admit(self, _node_id: UUID, body: bytes) -> bytes:
        serial, _, pem = body.decode().partition("\n")
        node_id = auth.admit_agent(serial, pem)
        self._admitted[serial] = time.monotonic()
        return bytes(node_id.bytes)

    def _lock(self, node_id: UUID, _body: bytes) -> bytes:
        lock_node(
            node_id=node_id,
            reason="two agents connected with its identity, so a copy of its files exists.",
        )
        return b""

    def _inventory(self, node_id: UUID, body: bytes) -> bytes:
        reachability.publish_heartbeat(node_id)
        rows = inventory_reports.record_node_report(
            node_id=node_id, report=reports.parse_inventory(fleet_pb2.AgentMessage.FromString(body))
        )
        return frames.ROWS.pack(rows)

    def _report(self, node_id: UUID, body: bytes) -> bytes:
        reachability.publish_heartbeat(node_id)
        (position,) = frames.POSITION.unpack_from(body)
        encoded = body[frames.POSITION.size :]
        return frames.PROGRESS.pack(*self._unfinished.process(node_id, encoded, position))

    async def watch_generations(self) -> None:
        """Send changed desired states and ended certificates to the gateway until cancelled."""
        unsubscribe = change_log.subscribe(self._desired_state_changed, Topic.DESIRED_STATE)
        try:
            while True:
                try:
                    await run_in_thread(self._poll, fleet_pool)
                except Exception:
                    log.exception("gateway: polling generations failed, retrying in 1 s")
                await asyncio.sleep(POLL_SECONDS)
        finally:
            unsubscribe()

    def _desired_state_changed(self, change: Change) -> None:
        self._states.send_changed(change.object_id)

    def _poll(self) -> None:
        started = time.monotonic()
        self._states.compare(all_generations())
        valid = auth.valid_serials()
        ended = [
            serial
            for serial, since in list(self._admitted.items())
            if since < started and serial not in valid
        ]
        if ended:
            self.send(Frame(Kind.CERTIFICATES_ENDED, body=" ".join(ended).encode()))
        for serial in ended:
            del self._admitted[serial]


@write_transaction
def record_refusal(node_id: UUID, reason: str) -> None:
    """Record that the gateway refused a message of a node. The gateway limits the rate."""
    node = Node.objects.get(pk=node_id)
    emit(
        "node.message_refused",
        path=node.path,
        object_id=node_id,
        message=f"The agent of node {node.name} sent an invalid message: {reason}.",
    )
