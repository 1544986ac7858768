"""The agent: connects to the appliance, applies the desired state and reports.

Sessions continue while the agent or the appliance is down.
"""

from __future__ import annotations

import asyncio
import logging
import math
import signal
import threading
import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import grpc

from nodes import metrics
from nodes.channel import Outbox, RetryDelays, open_channel, with_jitter
from nodes.context_memory import measure_contexts
from nodes.credential_keeper import CredentialKeeper
from nodes.desired_state import to_grants
from nodes.gpus import Gpu, Nvml
from nodes.host_access import (
    HOST_MEMORY,
    host_memory_is_closed,
    loaded_module,
    with_host_memory,
)
from nodes.launcher_control import Grants, LauncherControl, LauncherError, SessionList
from nodes.memory_watch import COMPARE_SECONDS, MemoryWatch
from nodes.messages import encode_inventory, encode_report, suspended_sessions
from nodes.protocol import fleet_pb2, fleet_pb2_grpc
from nodes.suspending import Outcome, Suspender
from nodes.turn_watch import TurnWatch, with_bypasses

log = logging.getLogger("agent")

POLL_SECONDS = 1.0
"""Interval at which the launcher's sessions are read."""
ASK_AGAIN_SECONDS = 60.0
"""Time until a driver that did not answer is asked again."""
ANSWER_SECONDS = 0.75
"""Time in which a launcher answers. One that is stopped enforces no shares."""
GPU_POLL_SECONDS = 10.0
"""Interval at which the GPUs are enumerated."""
ABILITIES = ("suspends", "resizes")
"""Fields of the inventory about what the launcher can do."""


def boot_seconds() -> float:
    """Return the time since the boot, as the launcher's clock counts it: also while suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class Agent:
    keeper: CredentialKeeper
    launcher: LauncherControl
    addresses: list[str]
    """Addresses at which clients reach the launcher."""
    nvml: Nvml = field(default_factory=Nvml)

    def __post_init__(self) -> None:
        self.outbox = Outbox(uuid.uuid4().hex)
        self.stop = asyncio.Event()
        self.gpus = self.nvml.gpus()
        self.heartbeat_seconds = 2.0
        self.context_bytes: dict[uuid.UUID, int] = {}
        """Memory of a context, by GPU that has been measured."""
        self.host_memory_closed: bool | None = None
        """True: kernels cannot address host memory. None: the driver has not answered yet."""
        self._ask_again_at = 0.0
        self._asked_module: int | None = None
        """The module that was loaded at the last question about host memory."""
        self._applied_closed: bool | None = None
        """`host_memory_closed` in the grants that the launcher has."""
        self._measuring = asyncio.Lock()
        self.memory_watch = MemoryWatch(self.context_bytes)
        self.turn_watch = TurnWatch()
        self._bypasses: frozenset[uuid.UUID] = frozenset()
        """Sessions that used a GPU without turns in the last comparison."""
        self.retry_delays = RetryDelays()
        self._desired: fleet_pb2.DesiredState | None = None
        self._last_summary: object = None
        self._sent_contexts: dict[uuid.UUID, int] = {}
        """`context_bytes` in the newest inventory."""
        self._last_report: tuple[SessionList, Sequence[Outcome]] | None = None
        self._isolation: tuple[str, ...] = ()
        self._abilities = dict.fromkeys(ABILITIES, False)
        self._suspender = Suspender(self.launcher)
        self._reconciling = asyncio.Lock()
        self._applying = threading.Lock()
        self._clock = (0, 0.0)
        """Clock of the appliance in its newest message, and the time since the boot at that."""

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. Reconnects with growing delays.

        Raises the exception of a part that ends by it: the service starts the agent again.
        """
        loop = asyncio.get_running_loop()
        for s in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(s, self.stop.set)
        await self._first_of(
            self._stay_connected(),
            self._report_periodically(),
            self._watch_processes(),
            self._watch_host_access(),
            self.keeper.run(),
        )

    async def _stay_connected(self) -> None:
        while not self.stop.is_set():
            try:
                await self._run_connection()
            except grpc.aio.AioRpcError as error:
                log.warning(
                    "agent: appliance unreachable, will retry (%s: %s)",
                    error.code().name,
                    error.details(),
                )
            await self._sleep(self.retry_delays.next())

    async def _sleep(self, seconds: float) -> None:
        """Sleep until the time has passed or the agent stops."""
        try:
            await asyncio.wait_for(self.stop.wait(), seconds)
        except TimeoutError:
            pass
        except asyncio.TimeoutError:  # a class of its own before Python 3.11
            pass

    async def _run_connection(self) -> None:
        """Run one stream until it breaks, the credentials are replaced, or the agent stops."""
        await self._first_of(self.keeper.wait_until_valid())
        if self.stop.is_set():
            return
        credentials = self.keeper.credentials
        async with open_channel(credentials, self.keeper.fleet_address) as channel:
            self.outbox.clear()
            self._last_summary = None
            await self._send_inventory()
            stream = fleet_pb2_grpc.FleetStub(channel).Connect(self.outbox.messages())
            replaced = self.keeper.wait_until_replaced(credentials)
            await self._first_of(self._receive(stream), replaced)

    async def _first_of(self, *works: Coroutine[Any, Any, None]) -> None:
        """Wait until one of the works ends or the agent stops. Cancel the others.

        Raises the exception of a work that failed.
        """
        tasks = [asyncio.create_task(w) for w in (self.stop.wait(), *works)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        for task in done:
            task.result()

    async def _receive(
        self, stream: grpc.aio.StreamStreamCall[fleet_pb2.AgentMessage, fleet_pb2.ApplianceMessage]
    ) -> None:
        """Process messages until the stream ends."""
        log.info(
            "agent: connected to %s as node %s",
            self.keeper.fleet_address,
            self.keeper.credentials.identity.node_name,
        )
        async for message in stream:
            self.retry_delays.received()
            self.heartbeat_seconds = message.heartbeat_seconds or self.heartbeat_seconds
            self._clock = message.appliance_seconds, boot_seconds()
            if message.HasField("desired_state"):
                self._desired = message.desired_state
                self.keeper.expect_authorities(message.desired_state.authorities)
                await self._apply()
                await self._report_now()

    async def _report_now(self) -> None:
        """Report before the next poll, which does it if the launcher is not reachable now."""
        try:
            self._send_report(*await self._reconcile())
        except LauncherError as error:
            log.warning("agent: sessions unknown, will retry (%s)", error)

    async def _apply(self) -> None:
        """Send the newest desired state to the launcher. The next poll retries a failure."""
        if self._desired is None:
            return
        await self._ask_about_new_gpus()
        try:
            await asyncio.to_thread(self._apply_newest)
        except LauncherError as error:
            log.warning("agent: desired state not applied, will retry (%s)", error)

    def _apply_newest(self) -> None:
        """Apply the desired state that is the newest one now. May raise LauncherError.

        Two threads may apply at once. One that took its grants before it waited would replace
        newer ones, and the launcher would admit sessions of an allocation that has ended. The clock
        of the appliance is that of now: with that of the message, tickets would hold longer.
        """
        with self._applying:
            if self._desired is not None:
                now = self._clock[0] + int(boot_seconds() - self._clock[1])
                closed = self.host_memory_closed
                self.launcher.apply(replace(self._grants(self._desired), appliance_seconds=now))
                self._applied_closed = closed

    def _grants(self, desired: fleet_pb2.DesiredState) -> Grants:
        node_id = uuid.UUID(self.keeper.credentials.identity.node_id)
        assured = (HOST_MEMORY,) if self.host_memory_closed else ()
        return to_grants(desired, node_id, self.context_bytes, assured)

    async def _ask_about_new_gpus(self) -> None:
        """Ask about each GPU before a grant offers it: its context, access of its kernels."""
        if not self._new_gpus():
            return
        async with self._measuring:
            if new := self._new_gpus():
                await self._ask_driver()
                measured = await asyncio.to_thread(measure_contexts, new)
                self.context_bytes.update(measured)
                log.info("agent: context memory measured: %s", describe_contexts(measured))

    def _new_gpus(self) -> list[Gpu]:
        return [g for g in self.gpus if g.uuid not in self.context_bytes]

    async def _ask_driver(self) -> None:
        """Ask whether kernels can address host memory. Requires _measuring."""
        before = loaded_module()
        self.host_memory_closed = not self.gpus or await asyncio.to_thread(host_memory_is_closed)
        self._asked_module = before or loaded_module()  # the first question loads the module
        self._ask_again_at = time.monotonic() + ASK_AGAIN_SECONDS

    async def _watch_host_access(self) -> None:
        while True:
            await asyncio.sleep(with_jitter(POLL_SECONDS))
            try:
                await self.check_host_access()
            except Exception:
                log.exception("agent: access of kernels to host memory not checked, will retry")

    async def check_host_access(self) -> None:
        """Ask the driver again if it was loaded anew, or a minute after it did not answer.

        The next poll applies the answer. Until there is one, the launcher refuses sessions that
        need closed host memory.
        """
        if self._desired is None:
            return
        loaded = loaded_module()
        # Without a module, a question would load one, perhaps during an update of the driver.
        if loaded and self._asked_module and loaded != self._asked_module:
            log.info("agent: nvidia-uvm was loaded anew")
            self.host_memory_closed, self._ask_again_at = None, 0.0
        async with self._measuring:
            if self.host_memory_closed is None and time.monotonic() >= self._ask_again_at:
                await self._ask_driver()

    def _must_apply(self, listed: SessionList) -> bool:
        return self._desired is not None and (
            listed.generation != self._desired.generation
            or self._applied_closed != self.host_memory_closed
        )

    async def _report_periodically(self) -> None:
        """Report changes at once, and everything at the appliance's heartbeat interval."""
        reported = gpus_checked = 0.0
        while True:
            await asyncio.sleep(with_jitter(POLL_SECONDS))
            try:
                if time.monotonic() - gpus_checked >= GPU_POLL_SECONDS:
                    gpus_checked = time.monotonic()
                    await self.check_gpus()
                listed, outcomes = await self._reconcile_soon()
                if self._must_apply(listed):
                    await self._apply()
                    listed, outcomes = await self._reconcile()
                if time.monotonic() - reported >= self.heartbeat_seconds - POLL_SECONDS / 2:
                    reported = time.monotonic()
                    self._send_report(listed, outcomes)
                    await self._send_samples()
                elif summary_of(listed, outcomes) != self._last_summary:
                    self._send_report(listed, outcomes)
                await self.check_isolation(listed)
            except LauncherError as error:
                log.warning("agent: sessions unknown, will retry (%s)", error)
                self._report_unenforced()
                self.outbox.put(fleet_pb2.AgentMessage(heartbeat=fleet_pb2.Heartbeat()))
            except Exception:
                log.exception("agent: heartbeat failed, will retry")

    async def _watch_processes(self) -> None:
        """Compare NVML with the launcher periodically. The software GPU accounts for itself."""
        while True:
            await asyncio.sleep(with_jitter(COMPARE_SECONDS))
            try:
                if not self.nvml.software():
                    await self.compare_processes()
            except Exception:
                log.exception("agent: NVML not compared, retrying in %.0f s", COMPARE_SECONDS)

    async def compare_processes(self) -> None:
        """Kill the sessions with more memory than they have charged. Find those without turns."""
        if self._desired is None:
            return
        memory = await asyncio.to_thread(self.nvml.process_memory, self.gpus)
        listed = await asyncio.to_thread(self.launcher.sessions)
        grants = self._grants(self._desired).grants
        for excess in self.memory_watch.compare(memory, listed.sessions, grants):
            log.warning("agent: session %s: %s", excess.session_id, excess.reason())
            await asyncio.to_thread(self.launcher.kill_session, excess.session_id, excess.reason())
        use = await asyncio.to_thread(self.nvml.process_use, self.gpus)
        bypasses = self.turn_watch.compare(use, listed, grants)
        for session in bypasses - self._bypasses:
            log.warning("agent: session %s uses a GPU without turns", session)
        self._bypasses = bypasses

    async def check_gpus(self) -> None:
        """Enumerate the GPUs and send the inventory if they or their contexts changed."""
        try:
            current = await asyncio.to_thread(self.nvml.gpus)
        except Exception:
            log.exception("agent: GPU enumeration failed, retrying in %.0f s", GPU_POLL_SECONDS)
            return
        if current != self.gpus:
            log.warning("agent: GPU inventory changed: %s", describe_change(self.gpus, current))
        elif self._sent_contexts == self.context_bytes:
            return
        await self._send_inventory()

    async def check_isolation(self, listed: SessionList) -> None:
        """Send the inventory if what the launcher does has changed and is known."""
        if listed.isolation and listed.isolation != self._isolation:
            log.warning("agent: isolation in force: %s", ", ".join(listed.isolation))
            await self._send_inventory()
        elif abilities_of(listed) != self._abilities:
            await self._send_inventory()

    async def _sessions(self) -> SessionList:
        listed = await asyncio.to_thread(self.launcher.sessions)
        self.turn_watch.observe(listed)
        return with_bypasses(with_host_memory(listed, self.host_memory_closed), self._bypasses)

    async def _reconcile(self) -> tuple[SessionList, tuple[Outcome, ...]]:
        """Return the sessions, and what became of the desired suspensions."""
        async with self._reconciling:
            listed = await self._sessions()
            grants = self._desired.grants if self._desired is not None else ()
            return listed, await asyncio.to_thread(self._suspender.reconcile, grants, listed)

    async def _reconcile_soon(self) -> tuple[SessionList, tuple[Outcome, ...]]:
        """Reconcile. Report that shares are unenforced if the launcher does not answer soon."""
        answer = asyncio.create_task(self._reconcile())
        answered, _ = await asyncio.wait({answer}, timeout=ANSWER_SECONDS)
        if not answered:
            self._report_unenforced()
        return await answer

    def _report_unenforced(self) -> None:
        """Send the sessions of the last report without a launcher that gives them turns."""
        if self._last_report is None:
            return
        listed, outcomes = self._last_report
        unenforced = without_launcher(listed)
        if summary_of(unenforced, outcomes) != self._last_summary:
            log.warning("agent: compute shares unenforced: the launcher does not answer")
            self._send_report(unenforced, outcomes)

    def _send_report(self, listed: SessionList, outcomes: Sequence[Outcome]) -> None:
        """Send the launcher's sessions and the generation that it has applied."""
        self._last_report = listed, outcomes
        self._last_summary = summary_of(listed, outcomes)
        report = encode_report(listed, outcomes)
        self.outbox.put(fleet_pb2.AgentMessage(report=report))

    async def _send_samples(self) -> None:
        values = await asyncio.to_thread(metrics.read_metrics, self.nvml, self.gpus)
        names = sorted({name for of_gpu in values.values() for name in of_gpu})
        gpus = [
            fleet_pb2.GpuSample(
                gpu_uuid=gpu_uuid.bytes, values=[of_gpu.get(name, math.nan) for name in names]
            )
            for gpu_uuid, of_gpu in values.items()
        ]
        self.outbox.put(fleet_pb2.AgentMessage(samples=fleet_pb2.Samples(gpus=gpus, metrics=names)))

    async def _send_inventory(self) -> None:
        """Enumerate the GPUs again and send the inventory, without endpoints if the port is 0."""
        try:
            listed = await self._sessions()
            port, self._isolation = listed.port, listed.isolation or self._isolation
            self._abilities = abilities_of(listed)
        except LauncherError:
            port = 0
        self.gpus = await asyncio.to_thread(self.nvml.gpus)
        self._sent_contexts = dict(self.context_bytes)
        inventory = encode_inventory(
            self.nvml,
            self.gpus,
            self._sent_contexts,
            self.addresses if port else [],
            port,
            self._isolation,
            **self._abilities,
        )
        self.outbox.put(fleet_pb2.AgentMessage(inventory=inventory))


def abilities_of(listed: SessionList) -> dict[str, bool]:
    """Return what the launcher can do, as fields of the inventory. Older ones can do less."""
    known = (listed.suspensions is not None, listed.over is not None)
    return dict(zip(ABILITIES, known, strict=True))


def describe_contexts(measured: Mapping[uuid.UUID, int]) -> str:
    """Return the bytes of a context by GPU for the log."""
    return " ".join(f"{gpu}={n}" for gpu, n in measured.items())


def describe_change(before: Sequence[Gpu], after: Sequence[Gpu]) -> str:
    """Return the numbers of added, removed and changed GPUs for the log."""
    old, new = {g.uuid: g for g in before}, {g.uuid: g for g in after}
    changed = sum(old[u] != new[u] for u in old.keys() & new.keys())
    return f"added={len(new.keys() - old)} removed={len(old.keys() - new)} changed={changed}"


def without_launcher(listed: SessionList) -> SessionList:
    """Return the sessions as they are while the launcher gives no turns.

    Those that are alone on their GPUs need none. What they received is unknown.
    """
    return replace(
        listed,
        shares=(),
        sessions=tuple(
            s if s.enforcement == "alone" else replace(s, enforcement="unenforced")
            for s in listed.sessions
        ),
    )


def summary_of(listed: SessionList, outcomes: Sequence[Outcome]) -> object:
    """Return the part of the sessions whose change is reported at once, without counters."""
    sessions = [(s.session_id, s.state, s.refused_calls, s.enforcement) for s in listed.sessions]
    return listed.generation, sessions, listed.over, suspended_sessions(listed), outcomes
