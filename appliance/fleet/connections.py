"""The gateway's connections: to agents, to the controller and to the HTTP server process."""

from __future__ import annotations

import asyncio
import socket

import grpc

from appliance.ipc import frames
from appliance.ipc.frames import Frame, Kind
from nodes.protocol import fleet_pb2

SAMPLE_BATCH_SECONDS, HEARTBEAT_BATCH_SECONDS = 0.015, 0.25
"""Collection windows for samples and heartbeats: other processes wake up fifty times a second
instead of once per node."""
MAX_NUMBER = 0xFFFFFFFF
REVOKED = grpc.StatusCode.UNAUTHENTICATED, "The certificate has ended or was revoked."


class RequestError(Exception):
    """Error reply of the controller."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


class Stream:
    """The latest connection of a node to the gateway."""

    def __init__(self, node: bytes, serial: str) -> None:
        self.node, self.serial = node, serial
        self.wake = asyncio.Event()
        self.ended = False
        self.error: tuple[grpc.StatusCode, str] | None = None
        """Status that the agent gets."""
        self.state: fleet_pb2.DesiredState | None = None
        """The newest desired state, until it is sent to the agent."""
        self.boot_id = ""
        self.last_sequence = -1
        self.stored_sequence = self.acknowledged = 0
        self.last_report = b""

    async def wait(self, seconds: float) -> None:
        """Wait for a wake-up or a timeout, without the extra task of asyncio.wait_for()."""
        timer = asyncio.get_running_loop().call_later(seconds, self.wake.set)
        try:
            await self.wake.wait()
        finally:
            timer.cancel()

    def end(self, error: tuple[grpc.StatusCode, str] | None = None) -> None:
        self.ended, self.error = True, self.error or error
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
        self._number = 0
        self._pending_samples: list[tuple[bytes, bytes, asyncio.Future[bool]]] = []
        self._samples_pending = asyncio.Event()
        self.ended_serials: set[str] = set()

    async def request(self, kind: Kind, node: bytes = frames.NO_NODE, body: bytes = b"") -> bytes:
        """Send a request and return the body of its reply. Raises RequestError."""
        self._number = number = self._number % MAX_NUMBER + 1
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
                case Kind.DESIRED_STATE:
                    if stream := self._streams.get(frame.node):
                        stream.state = fleet_pb2.DesiredState.FromString(frame.body)
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
                stream.end(REVOKED)
