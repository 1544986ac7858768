"""The process that people speak to: HTTP, the live feed, and what was measured. It reads rows; what changes something goes to the process that decides.

It ends with its parent, who tells it what changed; the gateway brings it what nodes measure.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import pickle
import signal
import socket
import ssl
import sys
import threading
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import uvloop

from appliance import pipe
from appliance.pipe import Frame, Kind

if TYPE_CHECKING:
    import uvicorn

    from appliance.answers import Answer
    from appliance.fleet.appliance_views import Decides

log = logging.getLogger("appliance.web")

DRAIN_SECONDS, STATUS_SECONDS, TICK_SECONDS = 8, 5.0, 1.0
MAX_UNREAD_BYTES = 1 << 26
ACCEPTED_A_ROUND = 32


@dataclass(frozen=True)
class Options:
    """What it is told on its command line."""

    people: int
    samples: int
    listening: int
    """File descriptors: of the pipe, and of the sockets to which the gateway and people connect."""
    certificate: str
    key: str
    """Files."""

    def arguments(self) -> list[str]:
        return [sys.executable, "-m", "appliance.web", json.dumps(asdict(self))]


class Decider:
    """The other end of the pipe."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._calls: dict[int, asyncio.Future[bytes]] = {}

    def say(self, frame: Frame) -> None:
        self._writer.write(frame.packed())

    async def ask(self, kind: Kind, body: bytes = b"") -> bytes:
        """Empty when it could not."""
        number = next(self._numbers)
        self._calls[number] = self._loop.create_future()
        try:
            self.say(Frame(kind, number, body=body))
            return await self._calls[number]
        finally:
            del self._calls[number]

    async def change(self, scope: dict[str, Any], body: bytes, *, quick: bool) -> Answer | None:
        from appliance.answers import passed

        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            return None
        answer = await self.ask(
            Kind.DECIDE if quick else Kind.CHANGE, pickle.dumps((passed(scope), body))
        )
        found: Answer | None = pickle.loads(answer) if answer else None  # noqa: S301 - from our own process
        return found

    def decides(self) -> Decides:
        """Blocks; not on the loop."""
        answer: Future[bytes] = asyncio.run_coroutine_threadsafe(self.ask(Kind.DECIDES), self._loop)
        found: Decides = pickle.loads(answer.result(STATUS_SECONDS))  # noqa: S301 - from our own process
        return found

    async def listen(self) -> None:
        """Until it says stop; the process ends at once when the pipe does."""
        while (frame := await pipe.read_async(self._reader)) is not None:
            match frame.kind:
                case Kind.ANSWER | Kind.REFUSED:
                    if (future := self._calls.get(frame.call)) and not future.done():
                        future.set_result(frame.body)
                case Kind.TOLD:
                    for function, arguments in pickle.loads(frame.body):  # noqa: S301 - from our own process
                        self._made(function, arguments)
                case Kind.ASKED:
                    function, arguments = pickle.loads(frame.body)  # noqa: S301
                    self.say(
                        Frame(
                            Kind.ANSWER,
                            frame.call,
                            body=pickle.dumps(self._made(function, arguments)),
                        )
                    )
                case Kind.STOP:
                    return
        os._exit(0)

    @staticmethod
    def _made(function: Any, arguments: tuple[Any, ...]) -> Any:
        try:
            return function(*arguments)
        except Exception:
            log.exception("%s could not be done here", function.__qualname__)
            return None


def take_samples(listening: socket.socket) -> None:
    """From one gateway after the other. On a thread of its own: samples of a thousand nodes must not wait behind people."""
    from appliance.fleet import samples

    while True:
        with pipe.accepted(listening) as connection, contextlib.suppress(OSError):
            for frame in pipe.frames(connection):
                connection.sendall(
                    Frame(Kind.ANSWER, frame.call, body=samples.take(frame.body)).packed()
                )


async def keep_history() -> None:
    from appliance.telemetry import history
    from appliance.writer import housekeeping, off_loop

    while True:
        await asyncio.sleep(TICK_SECONDS)
        try:
            await off_loop(history.advance, housekeeping)
        except Exception:
            log.exception("readings could not be written; the next second tries again")


def listeners(listening: socket.socket) -> list[socket.socket]:
    """The same socket many times: the loop takes one new connection from each in a round (libuv since 1.45), and a round of a busy web is long."""
    return [listening, *(listening.dup() for _ in range(ACCEPTED_A_ROUND - 1))]


def server(options: Options) -> uvicorn.Server:
    import uvicorn

    from appliance import connections
    from appliance.activity.consumers import MAX_FRAME_BYTES
    from appliance.asgi import application

    config = uvicorn.Config(
        application, ssl_certfile=options.certificate, ssl_keyfile=options.key, ssl_version=ssl.PROTOCOL_TLS_SERVER,
        http=connections.Http, ws=connections.WebSocket, ws_max_size=MAX_FRAME_BYTES, ws_per_message_deflate=False,
        log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=DRAIN_SECONDS,
    )  # fmt: skip
    return uvicorn.Server(config)


async def serve(options: Options) -> None:
    from appliance import garbage, writer
    from appliance.activity import watch
    from appliance.activity.feed import hub
    from appliance.asgi import handler
    from appliance.fleet import appliance_views
    from appliance.telemetry import history
    from appliance.telemetry.loop_lag import watch_loop

    decider = handler.decider = Decider(
        *await asyncio.open_connection(sock=socket.socket(fileno=options.people))
    )
    appliance_views.ask_decider = decider.decides
    writer.only_look()
    hub.start_publisher()
    garbage.begin()
    people = server(options)
    running = asyncio.create_task(people._serve(listeners(socket.socket(fileno=options.listening))))
    threading.Thread(
        target=take_samples,
        args=[socket.socket(fileno=options.samples)],
        name="samples",
        daemon=True,
    ).start()
    listening, *background = [
        asyncio.create_task(work)
        for work in (decider.listen(), keep_history(), watch_loop(), garbage.keep_away())
    ]
    while not (people.started or running.done()):
        await asyncio.sleep(0.01)
    if people.started:
        decider.say(Frame(Kind.READY))
    await asyncio.wait([listening, running], return_when=asyncio.FIRST_COMPLETED)
    watch.end_all()
    for task in background:
        task.cancel()
    people.should_exit = True
    listening_on = asyncio.create_task(
        decider.listen()
    )  # what is under way may still change something
    await asyncio.wait([running], timeout=DRAIN_SECONDS)
    listening_on.cancel()
    await asyncio.to_thread(history.write_everything)


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, signal.SIG_IGN)  # the appliance decides; its end of the pipe says so
    import django

    django.setup()
    uvloop.run(serve(Options(**json.loads(sys.argv[1]))))
    logging.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
