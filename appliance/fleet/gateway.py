"""The gateway process: gRPC streams of the agents.

TLS, HTTP/2 and protobuf of a thousand nodes must not contend for the GIL of other processes. The
gateway has no database and no key except the server's. It ends with the controller.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import uvloop
from cryptography import x509

from appliance.fleet.boots import MAX_BOOT_ID, BootHistory
from appliance.fleet.gateway_options import PORT_TAKEN, Options
from appliance.ipc import frames
from appliance.ipc.frames import Frame, Kind
from nodes.protocol import fleet_pb2, fleet_pb2_grpc

log = logging.getLogger("appliance.gateway")
Context = grpc.aio.ServicerContext[Any, Any]

NODES_AT_FULL_CADENCE = 200
"""With more nodes each sends less often, so that the total rate stays the same."""
SAMPLE_BATCH_SECONDS, HEARTBEAT_BATCH_SECONDS = 0.015, 0.25
"""Collection windows for samples and heartbeats: other processes wake up fifty times a second
instead of once per node."""
MAX_MESSAGE_BYTES, HANDSHAKE_MILLISECONDS = 8 << 20, 10_000
SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MILLISECONDS),
)
_GRPC_CODE = {
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "node_locked": grpc.StatusCode.PERMISSION_DENIED,
}
"""Status of an error reply; UNAVAILABLE for any other, so that the agent tries again."""


class RequestError(Exception):
    """Error reply of the controller."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


class Stream:
    """The latest connection of a node."""

    def __init__(self, node: bytes, serial: str) -> None:
        self.node, self.serial = node, serial
        self.wake = asyncio.Event()
        self.ended = self.revoked = False
        self.state_may_have_changed = True
        self.boot_id = ""
        self.last_sequence = -1
        self.sent_generation = -1
        self.stored_sequence = self.acknowledged = 0
        self.last_report = b""

    async def wait(self, seconds: float) -> None:
        """Wait for a wake-up or a timeout, without the extra task of asyncio.wait_for()."""
        timer = asyncio.get_running_loop().call_later(seconds, self.wake.set)
        try:
            await self.wake.wait()
        finally:
            timer.cancel()

    def end(self, *, revoked: bool = False) -> None:
        self.ended, self.revoked = True, revoked
        self.wake.set()


class SampleClient:
    """Connection to the HTTP server process, which stores samples."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def store(self, samples: bytes, nodes: int) -> bytes:
        """Store samples and return one byte per node, 1 if its samples were stored.

        Waits while that process starts. If it ends meanwhile, nothing was stored.
        """
        try:
            reader, writer = self._connection = self._connection or await self._connect()
            writer.write(Frame(Kind.SAMPLES, body=samples).encode())
            reply = await frames.read_frame_async(reader)
        except OSError:
            reply = None
        if reply is not None:
            return reply.body
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None
        return bytes(nodes)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = socket.socket(socket.AF_UNIX)
        # Does not block: the controller keeps the listening socket open across restarts.
        connection.connect(self._name)
        return await asyncio.open_connection(sock=connection)


class Controller:
    """Connection to the controller process."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        streams: dict[bytes, Stream],
        samples: SampleClient,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._streams = streams
        self._samples = samples
        self._heartbeats: set[bytes] = set()
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = itertools.cycle(range(1, 1 << 32))
        self._pending_samples: list[tuple[bytes, bytes, asyncio.Future[bool]]] = []
        self._samples_pending = asyncio.Event()
        self.ended_serials: set[str] = set()

    async def request(self, kind: Kind, node: bytes = frames.NO_NODE, body: bytes = b"") -> bytes:
        """Send a request and return the body of its reply. Raises RequestError."""
        number = next(self._numbers)
        self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            self.send(Frame(kind, number, node, body))
            return await self._calls[number]
        finally:
            del self._calls[number]

    def send(self, frame: Frame) -> None:
        self._writer.write(frame.encode())

    async def record_heartbeat(self, node: bytes, body: bytes = b"") -> bool:
        """Record a heartbeat with optional samples. Return whether the samples were stored."""
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._heartbeats.add(node)
        self._pending_samples.append((node, body, stored))
        self._samples_pending.set()
        return await stored

    async def send_samples(self) -> None:
        """Forward samples to the HTTP server in batches until cancelled."""
        while True:
            await self._samples_pending.wait()
            await asyncio.sleep(SAMPLE_BATCH_SECONDS)
            self._samples_pending.clear()
            batch, self._pending_samples = self._pending_samples, []
            reply = await self._samples.store(
                frames.pack_by_node((node, body) for node, body, _ in batch), len(batch)
            )
            for (_, _, future), stored in zip(batch, reply, strict=True):
                if not future.done():
                    future.set_result(bool(stored))

    async def send_heartbeats(self) -> None:
        """Forward heartbeats to the controller in batches until cancelled."""
        while True:
            await asyncio.sleep(HEARTBEAT_BATCH_SECONDS)
            if self._heartbeats:
                self.send(Frame(Kind.HEARTBEATS, body=b"".join(self._heartbeats)))
                self._heartbeats.clear()

    async def read(self) -> None:
        """Apply frames of the controller until it closes the connection."""
        while (frame := await frames.read_frame_async(self._reader)) is not None:
            match frame.kind:
                case Kind.REPLY | Kind.ERROR:
                    self._complete_call(frame)
                case Kind.DESIRED_STATE_CHANGED:
                    for node in frames.split_ids(frame.body):
                        if stream := self._streams.get(node):
                            stream.state_may_have_changed = True
                            stream.wake.set()
                case Kind.CERTIFICATES_ENDED:
                    self._end_streams(set(frame.body.decode().split()))

    def _complete_call(self, frame: Frame) -> None:
        future = self._calls.get(frame.call)
        if future is None or future.done():
            return
        if frame.kind is Kind.REPLY:
            future.set_result(frame.body)
        else:
            code, _, detail = frame.body.decode().partition(" ")
            future.set_exception(RequestError(code, detail))

    def _end_streams(self, serials: set[str]) -> None:
        self.ended_serials |= serials
        for stream in list(self._streams.values()):
            if stream.serial in serials:
                stream.end(revoked=True)


def serial_of(auth_context: Mapping[str, Any]) -> str:
    """Return the serial of the peer's certificate; empty without one."""
    pems = list(auth_context.get("x509_pem_cert", ()))
    return format(x509.load_pem_x509_certificate(pems[0]).serial_number, "x") if pems else ""


class FleetServicer(fleet_pb2_grpc.FleetServicer):  # type: ignore[misc]  # base has no types
    """gRPC service of the agents."""

    def __init__(
        self, controller: Controller, streams: dict[bytes, Stream], heartbeat_seconds: float
    ) -> None:
        self._controller = controller
        self._streams = streams
        self._heartbeat_seconds = heartbeat_seconds
        self._boots = BootHistory()

    @property
    def heartbeat_seconds(self) -> float:
        """Interval that agents must keep."""
        return self._heartbeat_seconds * max(1.0, len(self._streams) / NODES_AT_FULL_CADENCE)

    async def _admit(self, context: Context) -> Stream:
        """Return the stream of the node with the peer's certificate, or abort the call."""
        serial = serial_of(context.auth_context())
        self._controller.ended_serials.discard(serial)  # it may be valid again
        try:
            return Stream(await self._controller.request(Kind.ADMIT, body=serial.encode()), serial)
        except RequestError as error:
            code = _GRPC_CODE.get(error.code, grpc.StatusCode.UNAVAILABLE)
            await context.abort(code, error.detail)
            raise

    async def Connect(
        self, request_iterator: AsyncIterator[fleet_pb2.AgentMessage], context: Context
    ) -> AsyncIterator[fleet_pb2.ApplianceMessage]:
        stream = await self._admit(context)
        if older := self._streams.get(stream.node):
            older.end()
        self._streams[stream.node] = stream
        if stream.serial in self._controller.ended_serials:  # while the request was pending
            stream.end(revoked=True)
        reader = asyncio.create_task(self._read(stream, request_iterator))
        try:
            async for message in self._messages(stream):
                yield message
            if stream.revoked:
                await context.abort(
                    grpc.StatusCode.UNAUTHENTICATED, "The certificate has ended or was revoked."
                )
        finally:
            reader.cancel()
            if self._streams.get(stream.node) is stream:
                del self._streams[stream.node]

    async def _messages(self, stream: Stream) -> AsyncIterator[fleet_pb2.ApplianceMessage]:
        sent_at = 0.0
        while not stream.ended:
            stream.wake.clear()
            state = await self._changed_state(stream) if stream.state_may_have_changed else None
            if (
                state is not None
                or stream.stored_sequence != stream.acknowledged
                or time.monotonic() - sent_at >= self.heartbeat_seconds
            ):
                sent_at = time.monotonic()
                stream.acknowledged = stream.stored_sequence
                yield self._message(state, stream.acknowledged)
            await stream.wait(max(sent_at + self.heartbeat_seconds - time.monotonic(), 0.01))

    async def _changed_state(self, stream: Stream) -> fleet_pb2.DesiredState | None:
        stream.state_may_have_changed = False
        state = fleet_pb2.DesiredState.FromString(
            await self._controller.request(Kind.DESIRED_STATE, stream.node)
        )
        if state.generation == stream.sent_generation:
            return None
        stream.sent_generation = state.generation
        return state

    def _message(
        self, state: fleet_pb2.DesiredState | None, acknowledged: int
    ) -> fleet_pb2.ApplianceMessage:
        return fleet_pb2.ApplianceMessage(
            appliance_seconds=int(time.time()),
            heartbeat_seconds=self.heartbeat_seconds,
            acknowledged_sequence=acknowledged,
            desired_state=state,
        )

    async def _read(self, stream: Stream, messages: AsyncIterator[fleet_pb2.AgentMessage]) -> None:
        try:
            async for m in messages:
                if not stream.boot_id:
                    await self._begin_boot(stream, m.boot_id)
                if (
                    not stream.boot_id
                    or m.boot_id != stream.boot_id
                    or m.sequence <= stream.last_sequence
                ):
                    await self._controller.record_heartbeat(stream.node)
                    continue
                stream.last_sequence = m.sequence
                try:
                    await self._process(stream, m)
                except RequestError as error:
                    if error.code in ("internal", "busy"):
                        raise  # the message is valid: the agent reconnects and repeats it
                    log.warning("gateway: message of node %s dropped: %s", stream.node.hex(), error)
        except Exception:
            log.exception(
                "gateway: stream of node %s failed, waiting for its agent to reconnect",
                stream.node.hex(),
            )
        finally:
            stream.end()

    async def _begin_boot(self, stream: Stream, boot_id: str) -> None:
        """Set the boot of a stream. Lock the node if another agent has the same identity."""
        if not 0 < len(boot_id) <= MAX_BOOT_ID:
            return
        stream.boot_id = boot_id
        if self._boots.connect(stream.node, boot_id):
            self._boots.forget(stream.node)
            await self._controller.request(Kind.LOCK, stream.node)
            stream.end()

    async def _process(self, stream: Stream, m: fleet_pb2.AgentMessage) -> None:
        """Process a message. It affects only the node itself: the id comes from its certificate."""
        body = m.WhichOneof("body")
        encoded = m.report.SerializeToString(deterministic=True) if body == "report" else b""
        if body == "inventory":
            await self._controller.request(Kind.INVENTORY, stream.node, m.SerializeToString())
        elif body == "report" and encoded != stream.last_report:
            await self._controller.request(Kind.REPORT, stream.node, encoded)
            stream.last_report = encoded
        elif body == "samples":
            if await self._controller.record_heartbeat(stream.node, m.samples.SerializeToString()):
                stream.stored_sequence = m.sequence
                stream.wake.set()
        else:
            await self._controller.record_heartbeat(stream.node)


async def serve(options: Options) -> None:
    """Serve agents until the controller closes the connection."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=options.pipe))
    streams: dict[bytes, Stream] = {}
    samples = SampleClient(bytes.fromhex(options.samples_socket))
    controller = Controller(reader, writer, streams, samples)
    server = grpc.aio.server(options=SERVER_OPTIONS)
    fleet_pb2_grpc.add_FleetServicer_to_server(
        FleetServicer(controller, streams, options.heartbeat_seconds), server
    )
    pair = (Path(options.key).read_bytes(), Path(options.certificate).read_bytes())
    credentials = grpc.ssl_server_credentials(
        [pair], options.authority_pem.encode(), require_client_auth=True
    )
    try:
        server.add_secure_port(f"{options.address}:{options.port}", credentials)
    except RuntimeError as error:
        raise SystemExit(PORT_TAKEN) from error
    await server.start()
    controller.send(Frame(Kind.READY))
    tasks = [
        asyncio.create_task(work)
        for work in (controller.send_samples(), controller.send_heartbeats(), controller.read())
    ]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def main() -> None:
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO
    )
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, signal.SIG_IGN)  # the controller decides when this process ends
    uvloop.run(serve(Options(**json.loads(sys.argv[1]))))
    os._exit(0)


if __name__ == "__main__":
    main()
