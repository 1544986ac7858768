"""The HTTP server process: serves HTTP and WebSocket clients, and keeps samples.

It reads the database and forwards unsafe requests to the controller. It applies the controller's
stream of changes, and ends when the stream ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import uvloop

from appliance.ipc import frames, unix_socket
from appliance.ipc import messages_pb2 as pb
from appliance.ipc.frames import Frame, Kind

if TYPE_CHECKING:
    from appliance.http.forwarding import AppliedSequence
    from appliance.http.https_port import HttpsPort
    from appliance.runtime.background import Work

log = logging.getLogger("appliance.http")

RETENTION_INTERVAL_SECONDS = 1.0
TOKEN_USES_INTERVAL_SECONDS = 5.0
FAILED_WORK_INTERVAL_SECONDS = 1.0
REFUSALS_INTERVAL_SECONDS = 1.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Options:
    """Command line of the process."""

    stream: int
    """File descriptor of the connection to the controller."""
    samples: int
    listening: int
    """File descriptors of the sockets that accept the gateway's samples and clients."""
    controller: str
    """Path of the controller's socket."""
    certificate: str
    key: str
    """Files."""

    def arguments(self) -> list[str]:
        return [sys.executable, "-m", "appliance.http.server", json.dumps(asdict(self))]


class ControllerStream:
    """Applies the messages of the controller on the event loop."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        applied: AppliedSequence,
    ) -> None:
        self._reader, self._writer, self._applied = reader, writer, applied

    def send(self, message: pb.HttpServerMessage) -> None:
        self._writer.write(frames.encode_message(message))

    async def run(self) -> None:
        """Apply messages until Stop. Ends the process when the stream ends."""
        while (frame := await frames.read_frame_async(self._reader)) is not None:
            message = pb.ControllerMessage.FromString(frame.body)
            if message.HasField("stop"):
                return
            try:
                self._apply(message)
            except Exception:
                log.exception("http: applying %s failed", message.WhichOneof("body"))
        os._exit(0)

    def _apply(self, message: pb.ControllerMessage) -> None:
        from appliance.db import change_log
        from appliance.fleet import appliance_views
        from appliance.runtime import background
        from appliance.telemetry import reachability, series

        match message.WhichOneof("body"):
            case "change":
                try:
                    change_log.apply(change_log.from_message(message.change))
                finally:
                    self._applied.advance(message.change.sequence)
            case "snapshot":
                for node_id in message.snapshot.reachable_nodes:
                    reachability.record_heartbeat(UUID(bytes=node_id))
                self._applied.advance(message.snapshot.sequence)
            case "heartbeat":
                reachability.record_heartbeat(UUID(bytes=message.heartbeat.node_id))
            case "samples":
                series.record(
                    tuple(message.samples.metrics),
                    {UUID(bytes=s.series_id): list(s.values) for s in message.samples.series},
                    message.samples.seconds,
                )
            case "status":
                appliance_views.controller_status = message.status
                background.set_failed_elsewhere(message.status.failed_work)
            case "latest_metrics_request":
                reply = latest_metrics_reply(message.latest_metrics_request)
                self.send(pb.HttpServerMessage(latest_metrics_reply=reply))
            case "values_beyond_request":
                values = values_beyond_reply(message.values_beyond_request)
                self.send(pb.HttpServerMessage(values_beyond_reply=values))


def latest_metrics_reply(request: pb.LatestMetricsRequest) -> pb.LatestMetricsReply:
    from appliance.telemetry import series

    metrics = series.latest_metrics(UUID(bytes=request.series_id))
    return pb.LatestMetricsReply(call=request.call, metrics=metrics)


def values_beyond_reply(request: pb.ValuesBeyondRequest) -> pb.ValuesBeyondReply:
    from appliance.telemetry import series

    found = series.values_beyond(request.metric, request.threshold, above=request.above)
    return pb.ValuesBeyondReply(
        call=request.call,
        series_ids=b"".join(i.bytes for i in found or ()),
        values=(found or {}).values(),
    )


def take_samples(listening: socket.socket) -> None:
    """Store the samples of one gateway after the other. Runs on a thread of its own."""
    from appliance.fleet import samples

    while True:
        with frames.accept_own_user(listening) as connection, contextlib.suppress(OSError):
            for frame in frames.read_frames(connection):
                connection.sendall(
                    Frame(Kind.REPLY, frame.call, body=samples.store_samples(frame.body)).encode()
                )


async def run_retention() -> None:
    """Write samples to the database every second until cancelled."""
    from appliance.db.writer import background_pool, run_in_thread
    from appliance.telemetry import retention

    while True:
        await asyncio.sleep(RETENTION_INTERVAL_SECONDS)
        try:
            await run_in_thread(retention.advance, background_pool)
        except Exception:
            log.exception("http: writing samples failed, retrying in 1 s")


def token_uses_message() -> pb.HttpServerMessage | None:
    """Return the uses of tokens since the last call, or None if there are none."""
    from appliance.accounts import token_uses

    uses = [
        pb.TokenUse(token_id=token_id.bytes, minute=minute, address=address)
        for token_id, (minute, address) in token_uses.take().items()
    ]
    return pb.HttpServerMessage(token_uses=pb.TokenUses(uses=uses)) if uses else None


async def report_token_uses(controller: ControllerStream) -> None:
    """Report the last uses of tokens to the controller every few seconds until cancelled."""
    while True:
        await asyncio.sleep(TOKEN_USES_INTERVAL_SECONDS)
        if message := token_uses_message():
            controller.send(message)


async def send_refusals(controller: ControllerStream) -> None:
    """Send the counts of refused requests to the controller every second until cancelled."""
    from appliance.api import refusals
    from appliance.api.refusal_messages import to_messages

    while True:
        await asyncio.sleep(REFUSALS_INTERVAL_SECONDS)
        if counted := refusals.drain():
            controller.send(pb.HttpServerMessage(refusals=to_messages(counted)))


async def send_failed_work(controller: ControllerStream) -> None:
    """Send the names of failed background work to the controller when they change."""
    from appliance.runtime import background

    sent: list[str] = []
    while True:
        await asyncio.sleep(FAILED_WORK_INTERVAL_SECONDS)
        if (names := background.failed_here()) != sent:
            controller.send(pb.HttpServerMessage(failed_work=pb.FailedWork(names=names)))
            sent = names


def https_port(options: Options) -> HttpsPort:
    """Return the port for clients, whose connections the appliance's status counts."""
    from appliance.fleet import appliance_views
    from appliance.http.application import application
    from appliance.http.https_port import HttpsPort, connection_limits

    port = HttpsPort(
        application,
        socket.socket(fileno=options.listening),
        options.certificate,
        options.key,
        connection_limits(),
    )
    appliance_views.count_connections = port.connections.__len__
    return port


def background_work(controller: ControllerStream, port: HttpsPort) -> Sequence[Work]:
    """Return what runs on the event loop until the process stops."""
    from appliance.runtime import descriptors, garbage_collection
    from appliance.runtime.loop_lag import probe_loop_lag

    return (
        run_retention,
        partial(report_token_uses, controller),
        partial(send_refusals, controller),
        partial(send_failed_work, controller),
        port.follow_certificate,
        probe_loop_lag,
        garbage_collection.run_collection_policy,
        descriptors.watch,
    )


async def serve(options: Options) -> None:
    from appliance.activity import watch
    from appliance.activity.feed import hub
    from appliance.db import writer
    from appliance.http.application import http_application
    from appliance.http.forwarding import AppliedSequence, ControllerClient
    from appliance.runtime import background, garbage_collection
    from appliance.telemetry import retention

    applied = AppliedSequence()
    controller = ControllerStream(
        *await asyncio.open_connection(sock=socket.socket(fileno=options.stream)), applied
    )
    port = https_port(options)
    with unix_socket.short_path(Path(options.controller)) as path:
        http_application.forwarder = client = ControllerClient(path, applied)
        writer.use_read_only_writer()
        hub.start_publisher()
        garbage_collection.start_collection_policy()
        await port.start()
        samples = socket.socket(fileno=options.samples)
        background.thread_of("samples", partial(take_samples, samples)).start()
        tasks = [
            asyncio.create_task(background.keep_running(work))
            for work in background_work(controller, port)
        ]
        applying = asyncio.create_task(controller.run())
        controller.send(pb.HttpServerMessage(ready=pb.Ready()))
        await asyncio.wait([applying, port.serving], return_when=asyncio.FIRST_COMPLETED)
        watch.end_all()
        for task in tasks:
            task.cancel()
        # Pending requests may still commit changes.
        applying_rest = asyncio.create_task(controller.run())
        await port.stop()
        if message := token_uses_message():
            controller.send(message)
        applying_rest.cancel()
        await client.close()
    await asyncio.to_thread(retention.flush)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    # The controller decides when this process ends. uvicorn handles these signals otherwise.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    gc.set_threshold(50_000)  # imports leave little garbage, and looking for it takes 0.1 s
    import django

    django.setup()
    from appliance.configuration.storage import follow_changes

    follow_changes()
    uvloop.run(serve(Options(**json.loads(sys.argv[1]))))
    logging.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
