"""gRPC service of the agents."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import grpc
from cryptography import x509

from appliance.fleet.agent_port import AgentPort
from appliance.fleet.boots import BootHistory
from appliance.fleet.connections import REVOKED, Controller, RequestError, Stream
from appliance.fleet.message_budget import (
    CONNECTION_SECONDS,
    REFUSAL_SECONDS,
    MessageBudget,
    MessageBudgets,
    work_of_part,
)
from appliance.fleet.message_check import InvalidMessageError, check_message
from appliance.ipc.frames import POSITION, PROGRESS, ROWS, Frame, Kind
from nodes.protocol import fleet_pb2, fleet_pb2_grpc

log = logging.getLogger("appliance.gateway")
Context = grpc.aio.ServicerContext[Any, Any]

NODES_AT_FULL_CADENCE = 200
"""With more nodes each sends less often, so that the total rate stays the same."""
_GRPC_CODE = {
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "node_locked": grpc.StatusCode.PERMISSION_DENIED,
}
"""Status of an error reply; UNAVAILABLE for any other, so that the agent tries again."""


def pem_of(auth_context: Mapping[str, Any]) -> bytes:
    """Return the peer's certificate; empty without one."""
    return next(iter(auth_context.get("x509_pem_cert", ())), b"")


def serial_of(auth_context: Mapping[str, Any]) -> str:
    """Return the serial of the peer's certificate; empty without one."""
    pem = pem_of(auth_context)
    return format(x509.load_pem_x509_certificate(pem).serial_number, "x") if pem else ""


class FleetServicer(fleet_pb2_grpc.FleetServicer):  # type: ignore[misc]  # base has no types
    """gRPC service of the agents."""

    def __init__(
        self,
        controller: Controller,
        streams: dict[bytes, Stream],
        heartbeat_seconds: float,
        port: AgentPort,
    ) -> None:
        self._port = port
        self._controller = controller
        self._streams = streams
        self._heartbeat_seconds = heartbeat_seconds
        self._boots = BootHistory()
        self._budgets = MessageBudgets()

    @property
    def heartbeat_seconds(self) -> float:
        """Interval that agents must keep."""
        return self._heartbeat_seconds * max(1.0, len(self._streams) / NODES_AT_FULL_CADENCE)

    async def _admit(self, context: Context) -> Stream:
        """Return the stream of the node with the peer's certificate, or abort the call."""
        serial = serial_of(context.auth_context())
        if wait := self._budgets.of(serial).charge(CONNECTION_SECONDS):
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"The node connects or sends too often; try again in {wait:.0f} s.",
            )
        self._controller.ended_serials.discard(serial)  # it may be valid again
        try:
            body = serial.encode() + b"\n" + pem_of(context.auth_context())
            return Stream(await self._controller.request(Kind.ADMIT, body=body), serial)
        except RequestError as error:
            code = _GRPC_CODE.get(error.code, grpc.StatusCode.UNAVAILABLE)
            await context.abort(code, error.detail)
            raise

    async def Connect(
        self, request_iterator: AsyncIterator[fleet_pb2.AgentMessage], context: Context
    ) -> AsyncIterator[fleet_pb2.ApplianceMessage]:
        peer = context.peer()
        self._port.begin_stream(peer)
        try:
            stream = await self._admit(context)
            self._port.admit(peer)
            self._replace_older(stream)
            reader = asyncio.create_task(self._read(stream, request_iterator))
            try:
                async for message in self._messages(stream):
                    yield message
                if stream.error is not None:
                    await context.abort(*stream.error)
            finally:
                reader.cancel()
                if self._streams.get(stream.node) is stream:
                    del self._streams[stream.node]
        finally:
            self._port.end_stream(peer)

    def _replace_older(self, stream: Stream) -> None:
        """Make this the stream of its node, and end the one before it."""
        if older := self._streams.get(stream.node):
            older.end()
        self._streams[stream.node] = stream
        if stream.serial in self._controller.ended_serials:  # while the request was pending
            stream.end(REVOKED)

    async def _messages(self, stream: Stream) -> AsyncIterator[fleet_pb2.ApplianceMessage]:
        self._controller.send(Frame(Kind.DESIRED_STATE, node=stream.node))
        sent_at = time.monotonic()
        while not stream.ended:
            stream.wake.clear()
            state, stream.state = stream.state, None
            if (
                state is not None
                or stream.stored_sequence != stream.acknowledged
                or time.monotonic() - sent_at >= self.heartbeat_seconds
            ):
                sent_at = time.monotonic()
                stream.acknowledged = stream.stored_sequence
                yield self._message(state, stream.acknowledged)
            await stream.wait(max(sent_at + self.heartbeat_seconds - time.monotonic(), 0.01))

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
        budget = self._budgets.of(stream.serial)
        try:
            async for m in messages:
                check_message(m)
                await budget.receive(m, self.heartbeat_seconds)
                if not stream.boot_id:
                    await self._begin_boot(stream, m.boot_id)
                if m.boot_id != stream.boot_id or m.sequence <= stream.last_sequence:
                    await self._controller.record_heartbeat(stream.node)
                    continue
                stream.last_sequence = m.sequence
                await self._process(stream, m, budget)
        except InvalidMessageError as error:
            self._refuse(stream, str(error), budget)
        except RequestError as error:
            if error.code == "invalid":
                self._refuse(stream, error.detail, budget)
            else:  # the message is valid: the agent reconnects and repeats it
                log.warning("gateway: message of node %s failed: %s", stream.node.hex(), error)
        except Exception:
            log.exception(
                "gateway: stream of node %s failed, waiting for its agent to reconnect",
                stream.node.hex(),
            )
        finally:
            stream.end()

    async def _begin_boot(self, stream: Stream, boot_id: str) -> None:
        """Set the boot of a stream. Lock the node if another agent has the same identity."""
        stream.boot_id = boot_id
        if self._boots.connect(stream.node, boot_id):
            self._boots.forget(stream.node)
            await self._controller.request(Kind.LOCK, stream.node)
            stream.end()

    def _refuse(self, stream: Stream, reason: str, budget: MessageBudget) -> None:
        """End a stream after an invalid message, with an event at most once a minute."""
        budget.charge(REFUSAL_SECONDS)
        log.warning("gateway: invalid message of node %s: %s", stream.node.hex(), reason)
        if budget.permits_event():
            frame = Frame(Kind.MESSAGE_REFUSED, node=stream.node, body=reason.encode())
            self._controller.send(frame)
        stream.end((grpc.StatusCode.INVALID_ARGUMENT, f"Invalid message: {reason}."))

    async def _process(
        self, stream: Stream, m: fleet_pb2.AgentMessage, budget: MessageBudget
    ) -> None:
        """Process a message. It affects only the node itself: the id comes from its certificate."""
        body = m.WhichOneof("body")
        encoded = m.report.SerializeToString(deterministic=True) if body == "report" else b""
        if body == "inventory":
            await self._apply_inventory(stream, m.SerializeToString(), budget)
        elif body == "report" and encoded != stream.last_report:
            await self._apply_report(stream, encoded, len(m.report.sessions), budget)
            stream.last_report = encoded
        elif body == "samples":
            if await self._controller.record_heartbeat(stream.node, m.samples.SerializeToString()):
                stream.stored_sequence = m.sequence
                stream.wake.set()
        else:
            await self._controller.record_heartbeat(stream.node)

    async def _apply_inventory(self, stream: Stream, encoded: bytes, budget: MessageBudget) -> None:
        async with budget.turn() as turn:
            reply = await self._controller.request(Kind.INVENTORY, stream.node, encoded)
            turn.seconds = work_of_part(*ROWS.unpack(reply))

    async def _apply_report(
        self, stream: Stream, encoded: bytes, sessions: int, budget: MessageBudget
    ) -> None:
        """Apply a report in parts, each a short transaction, and charge the work of each part."""
        position, more = 0, True
        while more:
            async with budget.turn() as turn:
                body = POSITION.pack(position) + encoded
                reply = await self._controller.request(Kind.REPORT, stream.node, body)
                rows, compared, position, more = PROGRESS.unpack(reply)
                reads_all = position in (compared, sessions)  # the first part, and those at the end
                turn.seconds = work_of_part(rows, compared, sessions if reads_all else 0)
