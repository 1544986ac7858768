"""The controller's end of the HTTP server process: supervision and the stream of changes."""

from __future__ import annotations

import logging
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from itertools import count
from uuid import UUID

from appliance.accounts import token_uses
from appliance.api import refusals
from appliance.api.refusal_messages import from_messages
from appliance.db import change_log
from appliance.db.change_log import Change
from appliance.fleet import appliance_views
from appliance.http.server import Options
from appliance.ipc import frames, processes
from appliance.ipc import messages_pb2 as pb
from appliance.runtime import background
from appliance.telemetry import reachability

log = logging.getLogger(__name__)

START_SECONDS, STOP_SECONDS, RESTART_SECONDS = 60.0, 60.0, 0.5
METRICS_TIMEOUT_SECONDS = 2.0

Outbox = queue.SimpleQueue[pb.ControllerMessage | None]


class HttpServerProcess:
    """Starts the HTTP server process, restarts it when it ends, and sends it messages.

    All methods are thread-safe. Sending never blocks: a sender thread writes to the socket. A
    process that does not read for 5 s is killed and restarted.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._outbox: Outbox | None = None
        self._calls: dict[int, Future[pb.HttpServerMessage]] = {}
        self._numbers = count(1)
        self._stopping, self._ready = threading.Event(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._started = False
        self._thread = background.thread_of("http-server", self._supervise)

    def start(self) -> None:
        """Start the process without waiting for it."""
        change_log.subscribe_all(self.send_change)
        self._thread.start()

    def wait_until_ready(self) -> None:
        """Block until the process accepts connections. Raises SystemExit if it does not start."""
        if not self._ready.wait(START_SECONDS) or not self._started:
            raise SystemExit("The HTTP server process did not start; see its messages above.")

    def stop(self) -> None:
        """Block until the process has completed pending requests and stored its samples."""
        self._stopping.set()
        self.send(pb.ControllerMessage(stop=pb.Stop()))
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive() and self._process is not None:
            log.error("http server: did not stop in %.0f s; recent samples are lost", STOP_SECONDS)
            self._process.kill()

    def _supervise(self) -> None:
        while not self._stopping.is_set():
            inherited = [self._options.listening, self._options.samples]
            self._process, connection = processes.start(
                lambda fd: replace(self._options, stream=fd).arguments(), inherited
            )
            self.serve(connection)
            if not self._stopping.is_set():
                self._process.kill()
            status = self._process.wait()
            self._ready.set()
            if not self._started:
                return
            if not self._stopping.is_set():
                log.error("http server: exited with status %d, restarting", status)
            self._stopping.wait(RESTART_SECONDS)

    def serve(self, connection: socket.socket) -> None:
        """Exchange messages with a process until it closes the connection. Blocks."""
        processes.set_send_timeout(connection)
        background.set_failed_elsewhere(())
        outbox = self._outbox = Outbox()
        self.send(pb.ControllerMessage(snapshot=current_snapshot()))
        sender = threading.Thread(target=_send_all, args=[connection, outbox], daemon=True)
        sender.start()
        with connection:
            for frame in frames.read_frames(connection):
                self._receive(pb.HttpServerMessage.FromString(frame.body))
            self._outbox = None
            outbox.put(None)
            for future in list(self._calls.values()):
                future.cancel()
            sender.join()

    def _receive(self, message: pb.HttpServerMessage) -> None:
        if message.HasField("ready"):
            self._started = True
            self._ready.set()
        elif message.HasField("token_uses"):
            token_uses.add(
                {
                    UUID(bytes=use.token_id): (use.minute, use.address)
                    for use in message.token_uses.uses
                }
            )
        elif message.HasField("refusals"):
            refusals.add(from_messages(message.refusals))
        elif message.HasField("failed_work"):
            background.set_failed_elsewhere(message.failed_work.names)
        elif future := self._calls.get(call_of(message)):
            future.set_result(message)

    def send(self, message: pb.ControllerMessage) -> None:
        if (outbox := self._outbox) is not None:
            outbox.put(message)

    def send_change(self, sequence: int, change: Change) -> None:
        self.send(change_log.to_message(sequence, change))

    def send_heartbeat(self, node_id: UUID) -> None:
        self.send(pb.ControllerMessage(heartbeat=pb.Heartbeat(node_id=node_id.bytes)))

    def send_samples(
        self, metrics: tuple[str, ...], values: Mapping[UUID, Sequence[float]], seconds: float
    ) -> None:
        series = [pb.SeriesSample(series_id=i.bytes, values=v) for i, v in values.items()]
        samples = pb.Samples(seconds=seconds, metrics=metrics, series=series)
        self.send(pb.ControllerMessage(samples=samples))

    def send_status(self) -> None:
        self.send(pb.ControllerMessage(status=appliance_views.own_status()))

    def latest_metrics(self, series_id: UUID) -> dict[str, float]:
        """Request the latest metrics of a series. Blocks; empty if the process is unavailable."""
        reply = self._request(
            lambda call: pb.ControllerMessage(
                latest_metrics_request=pb.LatestMetricsRequest(call=call, series_id=series_id.bytes)
            )
        )
        return dict(reply.latest_metrics_reply.metrics) if reply else {}

    def values_beyond(
        self, metric: str, threshold: float, above: bool
    ) -> Mapping[UUID, float] | None:
        """Request the series beyond a threshold. Blocks; None if the process is unavailable."""
        reply = self._request(
            lambda call: pb.ControllerMessage(
                values_beyond_request=pb.ValuesBeyondRequest(
                    call=call, metric=metric, threshold=threshold, above=above
                )
            )
        )
        if reply is None:
            return None
        found = reply.values_beyond_reply
        ids = (UUID(bytes=packed) for packed in frames.split_ids(found.series_ids))
        return dict(zip(ids, found.values, strict=True))

    def _request(self, make: Callable[[int], pb.ControllerMessage]) -> pb.HttpServerMessage | None:
        """Send a request and return its reply, or None if the process is unavailable. Blocks."""
        call = next(self._numbers)
        future = self._calls[call] = Future()
        try:
            if self._outbox is None:
                return None
            self.send(make(call))
            return future.result(METRICS_TIMEOUT_SECONDS)
        except (CancelledError, TimeoutError):
            log.error("http server: request for metrics failed")
            return None
        finally:
            del self._calls[call]


def current_snapshot() -> pb.Snapshot:
    reachable = filter(reachability.is_reachable, reachability.all_last_seen())
    return pb.Snapshot(
        sequence=change_log.sequence(), reachable_nodes=[node_id.bytes for node_id in reachable]
    )


def call_of(message: pb.HttpServerMessage) -> int:
    """Return the number of the request that the message replies to; 0 if it is no reply."""
    if message.HasField("values_beyond_reply"):
        return message.values_beyond_reply.call
    return message.latest_metrics_reply.call


def _send_all(connection: socket.socket, outbox: Outbox) -> None:
    """Send the messages of the outbox until None. Close the connection if the peer stalls."""
    while True:
        batch = [outbox.get()]
        while not outbox.empty():
            batch.append(outbox.get_nowait())
        try:
            connection.sendall(b"".join(frames.encode_message(m) for m in batch if m is not None))
        except Exception as error:
            if not isinstance(error, OSError):
                background.note_failure("http-server-sender", error)
            processes.shut_down(connection)
            return
        if None in batch:
            return
