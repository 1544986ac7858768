"""Pages of nodes and GPUs, answered by a process of their own: whoever looks must not take the interpreter from those who change something.

It reads the rows as they are committed. What is in no row, which nodes were heard and what their GPUs do, the appliance tells it.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from appliance import pipe
from appliance.pipe import Frame, Kind

log = logging.getLogger(__name__)

ROUTES = "appliance.row_urls"
THREADS = 2
ANSWER_SECONDS, RESTART_SECONDS = 60.0, 0.5
TELL_SECONDS = 0.25
MAX_WAITING = 256
MAX_ANSWER_BYTES = MAX_UNREAD_BYTES = 1 << 26


class News(NamedTuple):
    heard: Sequence[UUID]
    """Nodes."""
    readings: Sequence[tuple[tuple[str, ...], Mapping[UUID, Sequence[float]]]]
    """Metrics, and the newest values of each GPU."""


class Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class Lister:
    """The process as the event loop sees it. While it is away, `ask` says so and the appliance answers by itself."""

    def __init__(self, everything: Callable[[], News]) -> None:
        """`everything`: what a new process must be told. Called on the loop."""
        self._everything = everything
        self._loop = asyncio.get_running_loop()
        self._writer: asyncio.StreamWriter | None = None
        self._numbers = count(1)
        self._untold: list[News] = []
        self._calls: dict[int, asyncio.Future[bytes]] = {}

    async def run(self) -> None:
        """As long as the appliance."""
        while True:
            process, ours = pipe.start(lambda end: [sys.executable, "-m", "appliance.lister", str(end)])
            try:
                await self._serve(*await asyncio.open_connection(sock=ours, limit=MAX_ANSWER_BYTES))
            finally:
                self._writer = None
                for future in self._calls.values():
                    future.cancel()
                process.kill()
                await asyncio.to_thread(process.wait)
            log.error("the lister's process ended with status %s; it is started again", process.returncode)
            await asyncio.sleep(RESTART_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while (frame := await pipe.read_async(reader)) is not None:
                if frame.kind is Kind.READY:
                    self._writer = writer
                    self._write(Frame(Kind.HEARD, body=pickle.dumps(self._everything())).packed())
                elif (future := self._calls.get(frame.call)) and not future.done():
                    future.set_result(frame.body)

    def tell(self, news: News) -> None:
        """From any thread. Sent a little later, with what else came meanwhile."""
        self._untold.append(news)

    async def keep_telling(self) -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            told, self._untold = self._untold, []
            if told and self._writer is not None:
                heard = {node_id for news in told for node_id in news.heard}
                self._write(Frame(Kind.HEARD, body=pickle.dumps(News(list(heard), [r for news in told for r in news.readings]))).packed())

    def forget_identities(self) -> None:
        """From any thread, before whoever changed something is answered: so its next request comes after this, on the same pipe."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._write, Frame(Kind.FORGET).packed())

    def _write(self, frame: bytes) -> None:
        if self._writer is None:
            return
        self._writer.write(frame)
        if self._writer.transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            self._hang_up()

    def _hang_up(self) -> None:
        """It does not read, or does not answer: another is started."""
        if self._writer is not None:
            self._writer.transport.abort()

    async def ask(self, scope: dict[str, Any]) -> Answer | None:
        """What the request is answered; None when the process is away, cannot or does not in time."""
        if self._writer is None or len(self._calls) >= MAX_WAITING:
            return None
        number = next(self._numbers)
        self._calls[number] = self._loop.create_future()
        try:
            self._write(Frame(Kind.GET, number, body=pickle.dumps(scope)).packed())
            answer = await asyncio.wait_for(self._calls[number], ANSWER_SECONDS)
            return Answer(*pickle.loads(answer)) if answer else None  # noqa: S301 - from our own process
        except TimeoutError:
            self._hang_up()
            return None
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) and task.cancelling():
                raise
            return None
        finally:
            del self._calls[number]


PASSED = ("type", "method", "path", "raw_path", "query_string", "headers", "scheme", "client", "server", "root_path")
"""What an answer depends on, of an ASGI scope."""


def passed(scope: dict[str, Any]) -> dict[str, Any]:
    return {name: scope[name] for name in PASSED if name in scope}


class Process:
    """The other end."""

    def __init__(self, connection: socket.socket) -> None:
        from django.core.handlers.base import BaseHandler
        from django.urls import get_resolver

        self._connection, self._sending = connection, threading.Lock()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="lister")
        self._handler = BaseHandler()
        self._handler.load_middleware(is_async=False)
        assert get_resolver(ROUTES).url_patterns  # imports the views here: two first requests at once would each see half of them

    def run(self) -> None:
        """Until the appliance ends."""
        from appliance.accounts import identities

        self._say(Frame(Kind.READY))
        with io.BufferedReader(socket.SocketIO(self._connection, "r")) as stream:
            while (frame := pipe.read(stream)) is not None:
                if frame.kind is Kind.GET:
                    self._threads.submit(self._answer, frame)
                elif frame.kind is Kind.FORGET:
                    identities.forget()
                else:
                    self._note(pickle.loads(frame.body))  # noqa: S301 - from our own process

    def close(self) -> None:
        """Waits for what is being answered."""
        self._threads.shutdown()

    def _say(self, frame: Frame) -> None:
        with self._sending:
            self._connection.sendall(frame.packed())

    @staticmethod
    def _note(news: News) -> None:
        from appliance.telemetry import latest, series

        for node_id in news.heard:
            latest.heard_from(node_id)
        for metrics, values_of in news.readings:
            series.note(metrics, values_of)

    def _answer(self, question: Frame) -> None:
        from django.core.handlers.asgi import ASGIRequest
        from django.http import HttpResponse

        try:
            request = ASGIRequest(pickle.loads(question.body), io.BytesIO())  # noqa: S301
            request.urlconf = ROUTES
            response: HttpResponse = self._handler.get_response(request)  # type: ignore[assignment]
            response.close()
            self._say(Frame(Kind.ANSWER, question.call, body=pickle.dumps((response.status_code, list(response.items()), response.content))))
        except Exception:
            log.exception("a page could not be answered; the appliance does it")
            self._say(Frame(Kind.ANSWER, question.call))


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "appliance.settings")
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, signal.SIG_IGN)  # the appliance decides; its end of the pipe says so
    import django

    django.setup()
    with contextlib.suppress(OSError):
        Process(socket.socket(fileno=int(sys.argv[1]))).run()
    os._exit(0)


if __name__ == "__main__":
    main()
