"""The appliance's end of the gateway's pipe: what agents say is decoded and given to the services, off the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from uuid import UUID

from appliance import pipe
from appliance.errors import ApplianceError
from appliance.failpoints import reach
from appliance.fleet import auth, enrolment, reports, samples
from appliance.fleet.desired_state import desired_state
from appliance.fleet.gateway_options import PORT_TAKEN, Options
from appliance.fleet.rollcall import Rollcall
from appliance.inventory import services as inventory
from appliance.inventory import wakeups
from appliance.pipe import Frame, Kind
from appliance.telemetry import latest
from appliance.writer import fleet_readers, off_loop, submit
from nodes.protocol import fleet_pb2

log = logging.getLogger(__name__)

COMPARE_SECONDS = 1.0
"""How often generations are compared; a wake-up is only a hint."""
START_SECONDS, STOP_SECONDS, RESTART_SECONDS = 60.0, 2.0, 0.5


REACHED = {Kind.STATE: "state.sent", Kind.REPORT: "report.kept"}


class FleetBackend:
    """Answers what the gateway asks; starts it again when it ends."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._socket: socket.socket | None = None
        self._sending = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="gateway", daemon=True)
        self._ready: threading.Event = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._rollcall = Rollcall()
        self._admitted: dict[str, float] = {}
        """Serials of the certificates that came in, and when."""
        self._answers: dict[Kind, Callable[[UUID, bytes], bytes]] = {
            Kind.ADMIT: self._admit, Kind.INVENTORY: self._inventory, Kind.REPORT: self._report, Kind.STATE: self._state, Kind.RENEW: self._renew,
        }  # fmt: skip

    def start(self) -> None:
        """Blocks until the gateway listens. Raises SystemExit when it cannot."""
        self._thread.start()
        if not self._ready.wait(START_SECONDS) or self._socket is None:
            taken = self._process is not None and self._process.poll() == PORT_TAKEN
            port = f"Port {self._options.port} on {self._options.address} is taken; set BUSBAR_FLEET_PORT."
            raise SystemExit(
                port if taken else "The agents' gateway does not start; its log says why."
            )

    def stop(self) -> None:
        self._stopping.set()
        if (connection := self._socket) is not None:
            pipe.hang_up(connection)
        self._thread.join(STOP_SECONDS)

    def _supervise(self) -> None:
        while not self._stopping.is_set():
            self._process, ours = pipe.start(
                lambda end: replace(self._options, pipe=end).arguments()
            )
            pipe.impatient(ours)
            self.serve(ours)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_SECONDS)
            self._process.kill()
            status = self._process.wait()
            first, self._socket = not self._ready.is_set(), None
            self._ready.set()
            if first:
                return
            if not self._stopping.is_set():
                log.error(
                    "the agents' gateway ended with status %d; it is started again, and the agents come back",
                    status,
                )
            self._stopping.wait(RESTART_SECONDS)

    def serve(self, connection: socket.socket) -> None:
        """Until the gateway is gone. On a thread of its own."""
        with connection:
            for frame in pipe.frames(connection):
                if frame.kind is Kind.READY:
                    self._socket = connection
                    self._ready.set()
                elif frame.kind is Kind.HEARD:
                    for node in pipe.ids(frame.body):
                        latest.heard_from(UUID(bytes=node))
                elif frame.kind in (Kind.REPORT, Kind.STATE):
                    self._decide(connection, frame)
                else:
                    fleet_readers.submit(self._answer, connection, frame)

    def _send(self, connection: socket.socket, frame: Frame) -> None:
        """A gateway that does not listen for seconds is hung up on, and so started again: this one, for there may be another by now."""
        try:
            with self._sending:
                connection.sendall(frame.packed())
        except OSError:
            pipe.hang_up(connection)

    def say(self, frame: Frame) -> None:
        if (connection := self._socket) is not None:
            self._send(connection, frame)

    def _decide(self, connection: socket.socket, question: Frame) -> None:
        """On the thread that writes, and answered after the commit: threads that take turns wait longer for the interpreter than they work."""
        decided = submit(
            lambda: self._answers[question.kind](UUID(bytes=question.node), question.body),
            must=True,
        )
        decided.add_done_callback(lambda future: self._reply(connection, question, future.result))

    def _answer(self, connection: socket.socket, question: Frame) -> None:
        self._reply(
            connection,
            question,
            lambda: self._answers[question.kind](UUID(bytes=question.node), question.body),
        )

    def _reply(
        self, connection: socket.socket, question: Frame, answered: Callable[[], bytes]
    ) -> None:
        try:
            answer = Frame(Kind.ANSWER, question.call, body=answered())
        except ApplianceError as error:
            answer = Frame(
                Kind.REFUSED, question.call, body=f"{error.code} {error.detail}".encode()
            )
        except ValueError as error:
            answer = Frame(Kind.REFUSED, question.call, body=f"invalid {error}".encode())
        except Exception:
            log.exception("node %s: %s failed", question.node.hex(), question.kind.name)
            answer = Frame(
                Kind.REFUSED,
                question.call,
                body=b"internal It failed here; the appliance's log says why.",
            )
        self._send(connection, answer)
        if question.kind in REACHED:
            reach(REACHED[question.kind])

    def _admit(self, nobody: UUID, body: bytes) -> bytes:
        method, serial = body.decode().split(" ", 1)
        node_id = auth.node_of(serial, method)
        if node_id is None:
            return b""
        self._admitted[serial] = time.monotonic()
        return bytes(node_id.bytes)

    def _inventory(self, node_id: UUID, body: bytes) -> bytes:
        latest.heard_of(node_id)
        inventory.node_report(
            node_id=node_id, report=reports.node(fleet_pb2.AgentMessage.FromString(body))
        )
        samples.forget_gpus(node_id)
        return b""

    def _report(self, node_id: UUID, body: bytes) -> bytes:
        latest.heard_of(node_id)
        reports.take(node_id, fleet_pb2.Report.FromString(body))
        return b""

    def _state(self, node_id: UUID, body: bytes) -> bytes:
        encoded: bytes = desired_state(node_id).SerializeToString()
        return encoded

    def _renew(self, node_id: UUID, body: bytes) -> bytes:
        request = fleet_pb2.RenewRequest.FromString(body)
        answer = enrolment.renew(
            node_id=node_id, agent_csr=request.agent_csr, launcher_csr=request.launcher_csr
        )
        reply = fleet_pb2.RenewReply(
            ca_pem=answer["ca_pem"],
            agent_pem=answer["agent_pem"],
            launcher_pem=answer["launcher_pem"],
        )
        encoded: bytes = reply.SerializeToString()
        return encoded

    async def compare(self) -> None:
        """Runs as long as the process: tells the gateway which streams must send or end."""
        wakeups.listen(self._look)
        try:
            while True:
                try:
                    await off_loop(self._compare, fleet_readers)
                except Exception:
                    log.exception("generations could not be compared; again in a second")
                await asyncio.sleep(COMPARE_SECONDS)
        finally:
            wakeups.stop_listening(self._look)

    def _look(self, node_ids: Iterable[UUID]) -> None:
        self.say(Frame(Kind.LOOK, body=b"".join(n.bytes for n in node_ids)))

    def _compare(self) -> None:
        begun = time.monotonic()
        if changed := self._rollcall.take():
            self._look(changed)
        ended = [
            serial
            for serial, since in list(self._admitted.items())
            if since < begun and serial not in self._rollcall.serials
        ]
        if ended:
            self.say(Frame(Kind.ENDED, body=" ".join(ended).encode()))
        for serial in ended:
            del self._admitted[serial]
