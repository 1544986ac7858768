"""The loop: connect, take the desired state, make it so, report. It owns the shutdown. Sessions do not need it."""

from __future__ import annotations

import asyncio
import logging
import math
import platform
import signal
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from nodes import samplers
from nodes.channel import Outbox, jittered, open_channel, renew, renewal_due, retry_delays
from nodes.checkpoint import Identity
from nodes.gpus import Nvml
from nodes.launcher_control import LauncherControl, LauncherError, SessionList, SessionReport
from nodes.protocol import fleet_pb2, fleet_pb2_grpc
from nodes.reconcile import grants_of
from nodes.version import AGENT_VERSION

log = logging.getLogger("agent")

LOOK_SECONDS = 1.0
GPU_SECONDS = 10.0
"""How often the GPUs themselves are looked at."""
NOT_ENFORCED = {
    "user": "sessions run as the launcher's user",
    "cgroup": "the launcher has no delegated cgroup",
    "seccomp": "the kernel refused the filter",
    "no_new_privs": "the kernel refused it",
    "resource_limits": "the kernel refused them",
}


@dataclass
class Agent:
    folder: Path
    identity: Identity
    launcher: LauncherControl
    addresses: list[str]
    nvml: Nvml = field(default_factory=Nvml)

    def __post_init__(self) -> None:
        self.outbox = Outbox(uuid.uuid4().hex)
        self.stop = asyncio.Event()
        self.gpus = self.nvml.gpus()
        self.heartbeat_seconds = 2.0
        self.applied_generation = 0
        self._desired: fleet_pb2.DesiredState | None = None
        self._outline: object = None

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for s in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(s, self.stop.set)
        beating = asyncio.create_task(self._beat())
        delays = retry_delays()
        while not self.stop.is_set():
            try:
                await self._connected()
                delays = retry_delays()
            except grpc.aio.AioRpcError as error:
                log.warning("the appliance is away (%s: %s)", error.code().name, error.details())
            await self._pause(next(delays))
        beating.cancel()

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self.stop.wait(), seconds)
        except TimeoutError:
            pass
        except asyncio.TimeoutError:  # its own class before Python 3.11
            pass

    async def _connected(self) -> None:
        """One stream, until it breaks or the agent stops."""
        async with open_channel(self.folder, self.identity.fleet_address) as channel:
            if renewal_due(self.folder):
                await renew(self.folder, channel)
                return
            self.outbox.clear()
            await self._send_inventory()
            stream = fleet_pb2_grpc.FleetStub(channel).Connect(self.outbox.messages())
            stopping = asyncio.create_task(self.stop.wait())
            reading = asyncio.create_task(self._read(stream))
            await asyncio.wait([stopping, reading], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not reading.done():
                stream.cancel()
                reading.cancel()
                return
            reading.result()

    async def _read(
        self, stream: grpc.aio.StreamStreamCall[fleet_pb2.AgentMessage, fleet_pb2.ApplianceMessage]
    ) -> None:
        log.info("connected to %s as %s", self.identity.fleet_address, self.identity.node_name)
        async for message in stream:
            self.heartbeat_seconds = message.heartbeat_seconds or self.heartbeat_seconds
            if message.HasField("desired_state"):
                self._desired = message.desired_state
                await self._apply()
                self._report(await self._sessions())
            if renewal_due(self.folder):
                return

    async def _apply(self) -> None:
        """Tells the launcher the newest state; a launcher that is away is told again with the next beat."""
        if self._desired is None:
            return
        grants = grants_of(self._desired, uuid.UUID(self.identity.node_id))
        try:
            await asyncio.to_thread(self.launcher.apply, grants)
            self.applied_generation = grants.generation
        except LauncherError as error:
            log.warning("%s", error)

    async def _beat(self) -> None:
        """Looks every second; sends what changed at once, and everything at the cadence that the appliance wants."""
        told = looked = 0.0
        while True:
            await asyncio.sleep(jittered(LOOK_SECONDS))
            try:
                if time.monotonic() - looked >= GPU_SECONDS:
                    looked = time.monotonic()
                    await self.look_at_gpus()
                listed = await self._sessions()
                if self._desired is not None and listed.generation < self._desired.generation:
                    await self._apply()
                    listed = await self._sessions()
                if time.monotonic() - told >= self.heartbeat_seconds - LOOK_SECONDS / 2:
                    told = time.monotonic()
                    self._report(listed)
                    await self._sample()
                elif outline(listed) != self._outline:
                    self._report(listed)
            except LauncherError as error:
                log.warning("%s", error)
                self.outbox.put(fleet_pb2.AgentMessage(heartbeat=fleet_pb2.Heartbeat()))
            except Exception:
                log.exception("a beat failed; the next one comes")

    async def look_at_gpus(self) -> None:
        """One may have gone, come, or been cut into instances behind our back."""
        try:
            now = await asyncio.to_thread(self.nvml.gpus)
        except Exception:
            log.exception("the GPUs could not be looked at; again in %.0f s", GPU_SECONDS)
            return
        if now != self.gpus:
            log.warning("the GPUs are not what they were; the appliance is told")
            await self._send_inventory()

    async def _sessions(self) -> SessionList:
        return await asyncio.to_thread(self.launcher.sessions)

    def _report(self, listed: SessionList) -> None:
        """Sessions as the launcher sees them, and the generation that it holds."""
        self._outline = outline(listed)
        report = fleet_pb2.Report(
            generation=listed.generation, sessions=[encode_session(s) for s in listed.sessions]
        )
        self.outbox.put(fleet_pb2.AgentMessage(report=report))

    async def _sample(self) -> None:
        readings = await asyncio.to_thread(samplers.sample, self.nvml, self.gpus)
        names = sorted({name for read in readings.values() for name in read})
        gpus = [
            fleet_pb2.GpuSample(
                gpu_uuid=u.bytes, values=[read.get(name, math.nan) for name in names]
            )
            for u, read in readings.items()
        ]
        self.outbox.put(fleet_pb2.AgentMessage(samples=fleet_pb2.Samples(gpus=gpus, metrics=names)))

    async def _send_inventory(self) -> None:
        try:
            port = (await self._sessions()).port
        except LauncherError:
            port = 0
        self.gpus = await asyncio.to_thread(self.nvml.gpus)
        inventory = fleet_pb2.Inventory(
            agent_version=AGENT_VERSION,
            driver_version=self.nvml.driver_version(),
            cuda_version=self.nvml.cuda_version(),
            operating_system=platform.platform()[:100],
            software=self.nvml.software(),
            endpoints=[fleet_pb2.Endpoint(address=a, port=port) for a in self.addresses if port],
            gpus=[
                fleet_pb2.Gpu(
                    uuid=g.uuid.bytes,
                    index=g.index,
                    model=g.model,
                    memory_bytes=g.memory_bytes,
                    compute_capability=g.compute_capability,
                    pci_bus_id=g.pci_bus_id,
                    mig=g.mig,
                    links=dict(g.links),
                )
                for g in self.gpus
            ],
        )
        self.outbox.put(fleet_pb2.AgentMessage(inventory=inventory))


def outline(listed: SessionList) -> object:
    """What is told at once; counters may wait."""
    return listed.generation, [(s.session_id, s.state, s.refused_calls) for s in listed.sessions]


def isolation_of(s: SessionReport) -> dict[str, str]:
    """Each mechanism: enforced, or why not."""
    out = {name: "enforced" if on else NOT_ENFORCED[name] for name, on in s.isolation.items()}
    out["memory_limit"] = "enforced"
    out["compute_limit"] = "not enforced in this release: kernels of all sessions take turns"
    return out


def encode_session(s: SessionReport) -> fleet_pb2.Session:
    return fleet_pb2.Session(
        id=s.session_id.bytes, allocation_id=s.allocation_id.bytes, state=s.state, pid=s.pid, client_pid=s.client_pid, client_address=s.client_address,
        program=s.program, isolation=isolation_of(s), memory_bytes=s.memory_bytes, launches=s.launches, bytes_in=s.bytes_in, bytes_out=s.bytes_out,
        end_reason=s.reason, opened_seconds=s.opened_seconds, refused_calls=s.refused_calls,
        partition_bytes=s.partition_bytes,
    )  # fmt: skip
