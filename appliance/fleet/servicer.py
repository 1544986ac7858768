"""The agents' protocol: decode, call a service, encode. The loop never touches the ORM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Any
from uuid import UUID

import grpc
from django.conf import settings

from appliance.errors import ApplianceError, Code
from appliance.failpoints import reach
from appliance.fleet import auth, enrolment, reports
from appliance.fleet.desired_state import desired_state
from appliance.fleet.rollcall import Rollcall
from appliance.inventory import services as inventory
from appliance.inventory import wakeups
from appliance.inventory.models import Node
from appliance.prepared import Update
from appliance.telemetry import charts, latest
from appliance.writer import fleet_readers, off_loop, writes
from nodes.protocol import fleet_pb2, fleet_pb2_grpc

log = logging.getLogger(__name__)
environment = settings.ENVIRONMENT
Context = grpc.aio.ServicerContext[Any, Any]

COMPARE_SECONDS = 1.0
"""How often generations are compared; a wake-up is only a hint."""
NODES_AT_FULL_CADENCE = 200
"""With more, each sends less often, so that all of them together send as much."""

_GRPC_CODE = {Code.DENIED: grpc.StatusCode.PERMISSION_DENIED, Code.INVALID: grpc.StatusCode.INVALID_ARGUMENT, Code.BUSY: grpc.StatusCode.UNAVAILABLE}
UNKNOWN_CERTIFICATE = "The certificate is not one of a node that is enrolled here; enrol the machine again."


class Stream:
    """One node's newest connection."""

    def __init__(self, node_id: UUID, serial: str) -> None:
        self.node_id, self.serial = node_id, serial
        self.wake = asyncio.Event()
        self.since = time.monotonic()
        self.ended = self.revoked = False
        self.look = True
        """Its generation may have changed."""
        self.sent_generation = -1
        self.kept_sequence = self.acknowledged = 0
        self.gpu_ids: dict[bytes, UUID] = {}
        self.last_report = b""

    def end(self, *, revoked: bool = False) -> None:
        self.ended, self.revoked = True, revoked
        self.wake.set()


class FleetServicer(fleet_pb2_grpc.FleetServicer):  # type: ignore[misc]  # the generated base has no types
    def __init__(self) -> None:
        self._streams: dict[UUID, Stream] = {}
        self._rollcall = Rollcall()

    @property
    def heartbeat_seconds(self) -> float:
        """The cadence that agents are asked for."""
        each: float = environment.heartbeat_seconds
        return each * max(1.0, len(self._streams) / NODES_AT_FULL_CADENCE)

    async def compare(self) -> None:
        """Runs as long as the process: wakes the streams that must send or end."""
        loop = asyncio.get_running_loop()

        def listener(node_ids: Iterable[UUID]) -> None:
            loop.call_soon_threadsafe(self._look, list(node_ids))

        wakeups.listen(listener)
        try:
            while True:
                try:
                    begun = time.monotonic()
                    self._look(await off_loop(self._rollcall.take, fleet_readers))
                    for stream in list(self._streams.values()):
                        if stream.since < begun and stream.serial not in self._rollcall.serials:
                            stream.end(revoked=True)
                except Exception:
                    log.exception("generations could not be compared; again in a second")
                await asyncio.sleep(COMPARE_SECONDS)
        finally:
            wakeups.stop_listening(listener)

    def _look(self, node_ids: Iterable[UUID]) -> None:
        for node_id in node_ids:
            if stream := self._streams.get(node_id):
                stream.look = True
                stream.wake.set()

    async def _authenticate(self, context: Context, method: str) -> tuple[UUID, str]:
        serial = auth.serial_of(context.auth_context())
        node_id = await off_loop(partial(auth.node_of, serial, f"/busbar.fleet.v1.Fleet/{method}"), fleet_readers)
        if node_id is None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, UNKNOWN_CERTIFICATE)
        assert node_id is not None
        return node_id, serial

    async def Connect(self, request_iterator: AsyncIterator[fleet_pb2.AgentMessage], context: Context) -> AsyncIterator[fleet_pb2.ApplianceMessage]:
        stream = Stream(*await self._authenticate(context, "Connect"))
        if older := self._streams.get(stream.node_id):
            older.end()
        self._streams[stream.node_id] = stream
        reader = asyncio.create_task(self._read(stream, request_iterator))
        try:
            async for message in self._messages(stream):
                yield message
            if stream.revoked:
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "The certificate has ended or was revoked.")
        finally:
            reader.cancel()
            if self._streams.get(stream.node_id) is stream:
                del self._streams[stream.node_id]

    async def _messages(self, stream: Stream) -> AsyncIterator[fleet_pb2.ApplianceMessage]:
        beat = 0.0
        while not stream.ended:
            stream.wake.clear()
            state = await self._changed_state(stream) if stream.look else None
            if state is not None or stream.kept_sequence != stream.acknowledged or time.monotonic() - beat >= self.heartbeat_seconds:
                beat = time.monotonic()
                stream.acknowledged = stream.kept_sequence
                yield self._message(state, stream.acknowledged)
                if state is not None:
                    reach("state.sent")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stream.wake.wait(), max(beat + self.heartbeat_seconds - time.monotonic(), 0.01))

    @staticmethod
    async def _changed_state(stream: Stream) -> fleet_pb2.DesiredState | None:
        stream.look = False
        state = await off_loop(partial(desired_state, stream.node_id), fleet_readers)
        if state.generation == stream.sent_generation:
            return None
        stream.sent_generation = state.generation
        return state

    def _message(self, state: fleet_pb2.DesiredState | None, acknowledged: int) -> fleet_pb2.ApplianceMessage:
        return fleet_pb2.ApplianceMessage(
            appliance_seconds=int(time.time()), heartbeat_seconds=self.heartbeat_seconds, acknowledged_sequence=acknowledged, desired_state=state
        )

    async def _read(self, stream: Stream, messages: AsyncIterator[fleet_pb2.AgentMessage]) -> None:
        newest: tuple[str, int] = ("", -1)
        try:
            async for m in messages:
                latest.heard_from(stream.node_id)
                if m.boot_id == newest[0] and m.sequence <= newest[1]:
                    continue
                newest = (m.boot_id, m.sequence)
                try:
                    await self._take(stream, m)
                except (ApplianceError, ValueError) as error:
                    log.warning("node %s: message dropped: %s", stream.node_id, error)
        except Exception:
            log.exception("node %s: its stream ends; the agent comes back", stream.node_id)
        finally:
            stream.end()

    async def _take(self, stream: Stream, m: fleet_pb2.AgentMessage) -> None:
        """It can only ever touch the node's own rows: the id comes from its certificate."""
        body = m.WhichOneof("body")
        if body == "inventory":
            await off_loop(partial(inventory.node_report, node_id=stream.node_id, report=reports.node(m)), fleet_readers)
            stream.gpu_ids.clear()
        elif body == "report":
            encoded = m.report.SerializeToString(deterministic=True)
            if encoded != stream.last_report:
                await off_loop(partial(reports.take, stream.node_id, m.report), fleet_readers)
                reach("report.kept")
                stream.last_report = encoded
        elif body == "samples":
            if any(gpu.gpu_uuid not in stream.gpu_ids for gpu in m.samples.gpus):
                stream.gpu_ids = {uuid.bytes: pk for uuid, pk in (await off_loop(partial(inventory.gpu_ids, stream.node_id), fleet_readers)).items()}
            charts.record_gpus(*reports.readings(m.samples, stream.gpu_ids))
            stream.kept_sequence = m.sequence
            stream.wake.set()

    async def RenewCertificates(self, request: fleet_pb2.RenewRequest, context: Context) -> fleet_pb2.RenewReply:
        node_id, _ = await self._authenticate(context, "RenewCertificates")
        try:
            answer = await off_loop(partial(enrolment.renew, node_id=node_id, agent_csr=request.agent_csr, launcher_csr=request.launcher_csr), fleet_readers)
        except ApplianceError as error:
            await context.abort(_GRPC_CODE.get(error.code, grpc.StatusCode.FAILED_PRECONDITION), error.detail)
        return fleet_pb2.RenewReply(ca_pem=answer["ca_pem"], agent_pem=answer["agent_pem"], launcher_pem=answer["launcher_pem"])


SEEN = Update(lambda node_id, at: (Node.objects.filter(pk=node_id), {"last_seen_at": at}))
FLUSH_TURNS = 30


@writes
def flush_last_seen() -> None:
    """Heartbeats live in memory; call every second. The database learns of each node every half minute, of a few at a time."""
    turn = int(time.monotonic()) % FLUSH_TURNS
    for node_id, at in latest.all_last_seen().items():
        if node_id.int % FLUSH_TURNS == turn:
            SEEN(node_id=node_id, at=at)
