"""The agents' streams, in a process of their own: TLS, HTTP/2 and protobuf of a thousand nodes must not take the interpreter from people's requests.

It has no database and no key but the server's; everything that it wants to know or to say goes through the pipe. It ends with its parent.
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

from appliance import pipe
from appliance.fleet.gateway_options import PORT_TAKEN, Options
from appliance.pipe import Frame, Kind
from nodes.protocol import fleet_pb2, fleet_pb2_grpc

log = logging.getLogger("appliance.gateway")
Context = grpc.aio.ServicerContext[Any, Any]

NODES_AT_FULL_CADENCE = 200
"""With more, each sends less often, so that all of them together send as much."""
TOGETHER_SECONDS, HEARD_SECONDS = 0.015, 0.25
"""So long what comes from all nodes is collected: the others then wake up fifty times a second instead of once for each of a thousand nodes."""
MAX_MESSAGE_BYTES = 8 << 20
_GRPC_CODE = {
    "denied": grpc.StatusCode.PERMISSION_DENIED,
    "invalid": grpc.StatusCode.INVALID_ARGUMENT,
    "busy": grpc.StatusCode.UNAVAILABLE,
}
UNKNOWN_CERTIFICATE = (
    "The certificate is not one of a node that is enrolled here; enrol the machine again."
)


class Refused(Exception):
    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code, self.sentence = code, sentence


class Stream:
    """One node's newest connection."""

    def __init__(self, node: bytes, serial: str) -> None:
        self.node, self.serial = node, serial
        self.wake = asyncio.Event()
        self.ended = self.revoked = False
        self.look = True
        """Its generation may have changed."""
        self.sent_generation = -1
        self.kept_sequence = self.acknowledged = 0
        self.last_report = b""

    async def woken(self, seconds: float) -> None:
        """Or so long. Without the task that asyncio.wait_for() makes each time."""
        timer = asyncio.get_running_loop().call_later(seconds, self.wake.set)
        try:
            await self.wake.wait()
        finally:
            timer.cancel()

    def end(self, *, revoked: bool = False) -> None:
        self.ended, self.revoked = True, revoked
        self.wake.set()


class Readings:
    """The web's process, which keeps what nodes measure."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def keep(self, news: bytes, nodes: int) -> bytes:
        """A byte for each node: 1 when its samples were kept. While that process starts, it is waited for; when it dies meanwhile, nothing was."""
        try:
            reader, writer = self._connection = self._connection or await self._connected()
            writer.write(Frame(Kind.NEWS, body=news).packed())
            answer = await pipe.read_async(reader)
        except OSError:
            answer = None
        if answer is not None:
            return answer.body
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None
        return bytes(nodes)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(
            self._name
        )  # at once: the appliance holds the other end, whoever serves it
        return await asyncio.open_connection(sock=connection)


class Appliance:
    """The process at the other end of the pipe."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        streams: dict[bytes, Stream],
        readings: Readings,
    ) -> None:
        self._reader, self._writer, self._streams, self._readings = (
            reader,
            writer,
            streams,
            readings,
        )
        self._heard: set[bytes] = set()
        self._calls: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = itertools.cycle(range(1, 1 << 32))
        self._news: list[tuple[bytes, bytes, asyncio.Future[bool]]] = []
        self._some_news = asyncio.Event()
        self.ended_serials: set[str] = set()

    async def ask(self, kind: Kind, node: bytes = pipe.NOBODY, body: bytes = b"") -> bytes:
        """Raises Refused."""
        number = next(self._numbers)
        self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            self.say(Frame(kind, number, node, body))
            return await self._calls[number]
        finally:
            del self._calls[number]

    def say(self, frame: Frame) -> None:
        self._writer.write(frame.packed())

    async def tell(self, node: bytes, body: bytes = b"") -> bool:
        """That the node was heard; of its samples, whether they were kept. What comes meanwhile from all nodes goes together."""
        kept: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._heard.add(node)
        self._news.append((node, body, kept))
        self._some_news.set()
        return await kept

    async def tell_news(self) -> None:
        while True:
            await self._some_news.wait()
            await asyncio.sleep(TOGETHER_SECONDS)
            self._some_news.clear()
            told, self._news = self._news, []
            answer = await self._readings.keep(
                pipe.packed_parts((node, body) for node, body, _ in told), len(told)
            )
            for (_, _, future), kept in zip(told, answer, strict=True):
                if not future.done():
                    future.set_result(bool(kept))

    async def tell_heard(self) -> None:
        while True:
            await asyncio.sleep(HEARD_SECONDS)
            if self._heard:
                self.say(Frame(Kind.HEARD, body=b"".join(self._heard)))
                self._heard.clear()

    async def listen(self) -> None:
        """Until the pipe ends."""
        while (frame := await pipe.read_async(self._reader)) is not None:
            match frame.kind:
                case Kind.ANSWER | Kind.REFUSED:
                    self._answered(frame)
                case Kind.LOOK:
                    for node in pipe.ids(frame.body):
                        if stream := self._streams.get(node):
                            stream.look = True
                            stream.wake.set()
                case Kind.ENDED:
                    self._ended(set(frame.body.decode().split()))

    def _answered(self, frame: Frame) -> None:
        future = self._calls.get(frame.call)
        if future is None or future.done():
            return
        if frame.kind is Kind.ANSWER:
            future.set_result(frame.body)
        else:
            code, _, sentence = frame.body.decode().partition(" ")
            future.set_exception(Refused(code, sentence))

    def _ended(self, serials: set[str]) -> None:
        self.ended_serials |= serials
        for stream in list(self._streams.values()):
            if stream.serial in serials:
                stream.end(revoked=True)


def serial_of(auth_context: Mapping[str, Any]) -> str:
    """Of the peer's certificate; empty without one."""
    pems = list(auth_context.get("x509_pem_cert", ()))
    return format(x509.load_pem_x509_certificate(pems[0]).serial_number, "x") if pems else ""


class FleetServicer(fleet_pb2_grpc.FleetServicer):  # type: ignore[misc]  # the generated base has no types
    def __init__(
        self, appliance: Appliance, streams: dict[bytes, Stream], heartbeat_seconds: float
    ) -> None:
        self._appliance, self._streams, self._heartbeat_seconds = (
            appliance,
            streams,
            heartbeat_seconds,
        )

    @property
    def heartbeat_seconds(self) -> float:
        """The cadence that agents are asked for."""
        return self._heartbeat_seconds * max(1.0, len(self._streams) / NODES_AT_FULL_CADENCE)

    async def _admitted(self, context: Context, method: str) -> tuple[bytes, str]:
        serial = serial_of(context.auth_context())
        node = await self._appliance.ask(
            Kind.ADMIT, body=f"/busbar.fleet.v1.Fleet/{method} {serial}".encode()
        )
        if not node:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, UNKNOWN_CERTIFICATE)
        return node, serial

    async def Connect(
        self, request_iterator: AsyncIterator[fleet_pb2.AgentMessage], context: Context
    ) -> AsyncIterator[fleet_pb2.ApplianceMessage]:
        stream = Stream(*await self._admitted(context, "Connect"))
        if older := self._streams.get(stream.node):
            older.end()
        self._streams[stream.node] = stream
        if stream.serial in self._appliance.ended_serials:  # while the question was under way
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
        beat = 0.0
        while not stream.ended:
            stream.wake.clear()
            state = await self._changed_state(stream) if stream.look else None
            if (
                state is not None
                or stream.kept_sequence != stream.acknowledged
                or time.monotonic() - beat >= self.heartbeat_seconds
            ):
                beat = time.monotonic()
                stream.acknowledged = stream.kept_sequence
                yield self._message(state, stream.acknowledged)
            await stream.woken(max(beat + self.heartbeat_seconds - time.monotonic(), 0.01))

    async def _changed_state(self, stream: Stream) -> fleet_pb2.DesiredState | None:
        stream.look = False
        state = fleet_pb2.DesiredState.FromString(
            await self._appliance.ask(Kind.STATE, stream.node)
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
        newest: tuple[str, int] = ("", -1)
        try:
            async for m in messages:
                if m.boot_id == newest[0] and m.sequence <= newest[1]:
                    await self._appliance.tell(stream.node)
                    continue
                newest = (m.boot_id, m.sequence)
                try:
                    await self._take(stream, m)
                except Refused as refusal:
                    if refusal.code in ("internal", "busy"):
                        raise  # nothing is wrong with the message: the agent comes back and says it again
                    log.warning("node %s: message dropped: %s", stream.node.hex(), refusal)
        except Exception:
            log.exception("node %s: its stream ends; the agent comes back", stream.node.hex())
        finally:
            stream.end()

    async def _take(self, stream: Stream, m: fleet_pb2.AgentMessage) -> None:
        """It can only ever touch the node's own rows: the id comes from its certificate."""
        body = m.WhichOneof("body")
        encoded = m.report.SerializeToString(deterministic=True) if body == "report" else b""
        if body == "inventory":
            await self._appliance.ask(Kind.INVENTORY, stream.node, m.SerializeToString())
        elif body == "report" and encoded != stream.last_report:
            await self._appliance.ask(Kind.REPORT, stream.node, encoded)
            stream.last_report = encoded
        elif body == "samples":
            if await self._appliance.tell(stream.node, m.samples.SerializeToString()):
                stream.kept_sequence = m.sequence
                stream.wake.set()
        else:
            await self._appliance.tell(stream.node)

    async def RenewCertificates(
        self, request: fleet_pb2.RenewRequest, context: Context
    ) -> fleet_pb2.RenewReply:
        node, _ = await self._admitted(context, "RenewCertificates")
        try:
            return fleet_pb2.RenewReply.FromString(
                await self._appliance.ask(Kind.RENEW, node, request.SerializeToString())
            )
        except Refused as refusal:
            await context.abort(
                _GRPC_CODE.get(refusal.code, grpc.StatusCode.FAILED_PRECONDITION), refusal.sentence
            )
            raise


async def serve(options: Options) -> None:
    """Until the pipe ends."""
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=options.pipe))
    streams: dict[bytes, Stream] = {}
    appliance = Appliance(reader, writer, streams, Readings(bytes.fromhex(options.readings)))
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_MESSAGE_BYTES)])
    fleet_pb2_grpc.add_FleetServicer_to_server(
        FleetServicer(appliance, streams, options.heartbeat_seconds), server
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
    appliance.say(Frame(Kind.READY))
    working = [
        asyncio.create_task(work)
        for work in (appliance.tell_news(), appliance.tell_heard(), appliance.listen())
    ]
    done, _ = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def main() -> None:
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO
    )
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, signal.SIG_IGN)  # the appliance decides; its end of the pipe says so
    uvloop.run(serve(Options(**json.loads(sys.argv[1]))))
    os._exit(0)


if __name__ == "__main__":
    main()
