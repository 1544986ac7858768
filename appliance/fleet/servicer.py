"""The agents' protocol: decode, call a service, encode. The loop never touches the ORM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from uuid import UUID

import grpc
from django.conf import settings
from django.db.models import F

from appliance.allocations import services as allocations
from appliance.allocations import sessions
from appliance.errors import ApplianceError, Code
from appliance.fleet import auth, enrolment
from appliance.fleet.desired_state import desired_state
from appliance.inventory import services as inventory
from appliance.inventory.models import Node
from appliance.telemetry import latest
from appliance.writer import off_loop, writes
from nodes.protocol import fleet_pb2, fleet_pb2_grpc

log = logging.getLogger(__name__)
Context = grpc.aio.ServicerContext[Any, Any]

COMPARE_SECONDS = 1.0
"""How often a stream compares generations; a wake-up is only a hint."""

_GRPC_CODE = {Code.DENIED: grpc.StatusCode.PERMISSION_DENIED, Code.INVALID: grpc.StatusCode.INVALID_ARGUMENT, Code.BUSY: grpc.StatusCode.UNAVAILABLE}


def generation_of(node_id: UUID) -> int:
    return Node.objects.values_list("generation", flat=True).get(pk=node_id)


@writes
def record_applied(node_id: UUID, generation: int) -> None:
    """Only forward: an old report changes nothing."""
    if Node.objects.filter(pk=node_id, applied_generation__lt=generation, generation__gte=generation).update(applied_generation=generation):
        allocations.generation_applied(node_id=node_id, generation=generation)


class FleetServicer(fleet_pb2_grpc.FleetServicer):  # type: ignore[misc]  # the generated base has no types
    def __init__(self) -> None:
        self._streams: dict[UUID, object] = {}
        """Node to its newest stream; an older one ends."""

    async def _authenticate(self, context: Context, method: str) -> UUID:
        node_id = await off_loop(partial(auth.node_of, context.auth_context(), f"/busbar.fleet.v1.Fleet/{method}"))
        if node_id is None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "The certificate is not one of a node that is enrolled here; enrol the machine again.")
        assert node_id is not None
        return node_id

    async def Connect(self, request_iterator: AsyncIterator[fleet_pb2.AgentMessage], context: Context) -> AsyncIterator[fleet_pb2.ApplianceMessage]:
        node_id = await self._authenticate(context, "Connect")
        mine = object()
        self._streams[node_id] = mine
        stop = asyncio.Event()
        reader = asyncio.create_task(self._read(node_id, request_iterator, stop))
        sent, last_beat = -1, 0.0
        try:
            while not stop.is_set() and self._streams.get(node_id) is mine:
                if await off_loop(partial(generation_of, node_id)) != sent:
                    state = await off_loop(partial(desired_state, node_id))
                    sent = state.generation
                    yield self._message(state)
                elif time.monotonic() - last_beat > settings.ENVIRONMENT.heartbeat_seconds:
                    last_beat = time.monotonic()
                    yield self._message(None)
                if not await off_loop(partial(auth.node_of, context.auth_context(), "/busbar.fleet.v1.Fleet/Connect")):
                    await context.abort(grpc.StatusCode.UNAUTHENTICATED, "The certificate has ended or was revoked.")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), COMPARE_SECONDS)
        finally:
            reader.cancel()
            if self._streams.get(node_id) is mine:
                del self._streams[node_id]

    @staticmethod
    def _message(state: fleet_pb2.DesiredState | None) -> fleet_pb2.ApplianceMessage:
        message = fleet_pb2.ApplianceMessage(appliance_seconds=int(time.time()), heartbeat_seconds=settings.ENVIRONMENT.heartbeat_seconds)
        if state is not None:
            message.desired_state.CopyFrom(state)
        return message

    async def _read(self, node_id: UUID, messages: AsyncIterator[fleet_pb2.AgentMessage], stop: asyncio.Event) -> None:
        newest: tuple[str, int] = ("", -1)
        try:
            async for m in messages:
                latest.heard_from(node_id)
                if m.boot_id == newest[0] and m.sequence <= newest[1]:
                    continue
                newest = (m.boot_id, m.sequence)
                try:
                    await off_loop(partial(handle, node_id, m))
                except (ApplianceError, ValueError) as error:
                    log.warning("node %s: message dropped: %s", node_id, error)
        finally:
            stop.set()

    async def RenewCertificates(self, request: fleet_pb2.RenewRequest, context: Context) -> fleet_pb2.RenewReply:
        node_id = await self._authenticate(context, "RenewCertificates")
        try:
            answer = await off_loop(partial(enrolment.renew, node_id=node_id, agent_csr=request.agent_csr, launcher_csr=request.launcher_csr))
        except ApplianceError as error:
            await context.abort(_GRPC_CODE.get(error.code, grpc.StatusCode.FAILED_PRECONDITION), error.detail)
        return fleet_pb2.RenewReply(ca_pem=answer["ca_pem"], agent_pem=answer["agent_pem"], launcher_pem=answer["launcher_pem"])


def handle(node_id: UUID, message: fleet_pb2.AgentMessage) -> None:
    """One message of a node. It can only ever touch the node's own rows: the id comes from its certificate."""
    body = message.WhichOneof("body")
    if body == "inventory":
        inventory.node_report(node_id=node_id, report=reported_node(message))
    elif body == "report":
        sessions.sessions_report(node_id=node_id, reported=[reported_session(s) for s in message.report.sessions])
        record_applied(node_id, message.report.generation)
    elif body == "samples":
        ids = inventory.gpu_ids(node_id)
        read = {UUID(bytes=gpu.gpu_uuid): dict(gpu.metrics) for gpu in message.samples.gpus}
        latest.record_gpus({ids[uuid]: metrics for uuid, metrics in read.items() if uuid in ids})


def reported_node(message: fleet_pb2.AgentMessage) -> inventory.ReportedNode:
    i = message.inventory
    return inventory.ReportedNode(
        agent_version=i.agent_version,
        driver_version=i.driver_version,
        operating_system=i.operating_system,
        software=i.software,
        boot_id=message.boot_id,
        endpoints=tuple((e.address[:255], e.port) for e in i.endpoints[:16]),
        gpus=tuple(inventory.ReportedGpu(UUID(bytes=g.uuid), g.index, g.model, g.memory_bytes, g.compute_capability) for g in i.gpus[:64]),
    )


def reported_session(s: fleet_pb2.Session) -> sessions.ReportedSession:
    return sessions.ReportedSession(
        session_id=UUID(bytes=s.id), allocation_id=UUID(bytes=s.allocation_id), state=s.state, pid=s.pid, client_pid=s.client_pid,
        client_address=s.client_address, program=s.program, isolation=dict(s.isolation), memory_bytes=s.memory_bytes, launches=s.launches,
        bytes_in=s.bytes_in, bytes_out=s.bytes_out, end_reason=s.end_reason, opened_seconds=s.opened_seconds,
        refused_calls=tuple(name[:64] for name in s.refused_calls[:64]),
    )  # fmt: skip


@writes
def flush_last_seen() -> None:
    """Heartbeats live in memory; the database learns of them every ten seconds."""
    for node_id, seen_at in latest.all_last_seen().items():
        Node.objects.filter(pk=node_id).exclude(last_seen_at=seen_at).update(last_seen_at=seen_at, version=F("version"))
