"""The deciding process's end of the web's pipes: answers requests that change something, and tells what changed."""

from __future__ import annotations

import io
import logging
import pickle
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from itertools import count
from typing import Any

from appliance import pipe, web
from appliance.answers import Answer, Answerer, Refused, refusal
from appliance.errors import ApplianceError
from appliance.fleet import appliance_views
from appliance.pipe import Frame, Kind
from appliance.told import Call
from appliance.writer import readers, submit

log = logging.getLogger(__name__)

START_SECONDS, STOP_SECONDS, RESTART_SECONDS, ASK_SECONDS = 60.0, 60.0, 0.5, 2.0


class WebBackend:
    """Starts the web's process, and another when it ends."""

    def __init__(self, options: web.Options, everything: Callable[[], Iterable[Call]]) -> None:
        """`everything`: what a new process must be told."""
        self._options, self._everything = options, everything
        self._answerer = Answerer()
        self._people: socket.socket | None = None
        self._untold: deque[Call] = deque()
        self._sending = threading.Lock()
        self._numbers = count(1)
        self._asked: dict[int, Future[bytes]] = {}
        self._stopping, self._ready = threading.Event(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, name="web", daemon=True)

    def begin(self) -> None:
        """Starts it; blocks for nothing."""
        self._thread.start()

    def started(self) -> None:
        """Blocks until people can speak to it. Raises SystemExit when it does not start."""
        if not self._ready.wait(START_SECONDS) or self._people is None:
            raise SystemExit("The web's process does not start; its log says why.")

    def stop(self) -> None:
        """Blocks until it has answered what is under way and written down what was measured."""
        self._stopping.set()
        if (connection := self._people) is not None:
            self._send(connection, Frame(Kind.STOP))
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive() and self._process is not None:
            log.error("the web's process does not end; readings of the last minutes are lost")
            self._process.kill()

    def _supervise(self) -> None:
        while not self._stopping.is_set():
            inherited = [self._options.listening, self._options.samples]
            self._process, people = pipe.start(
                lambda end: replace(self._options, people=end).arguments(), inherited
            )
            pipe.impatient(people)
            self.serve(people)
            if not self._stopping.is_set():
                self._process.kill()
            status = self._process.wait()
            first = not self._ready.is_set()
            self._ready.set()
            if first:
                return
            if not self._stopping.is_set():
                log.error("the web's process ended with status %d; it is started again", status)
            self._stopping.wait(RESTART_SECONDS)

    def serve(self, connection: socket.socket) -> None:
        """Until the process is gone."""
        with connection:
            for frame in pipe.frames(connection):
                match frame.kind:
                    case Kind.READY:
                        self._people = connection
                        self._untold.extend(self._everything())
                        self.flush()
                        self._ready.set()
                    case Kind.CHANGE:
                        readers.submit(self._answer, connection, frame)
                    case Kind.DECIDE:
                        self._decide(connection, frame)
                    case Kind.DECIDES:
                        self._send(
                            connection,
                            Frame(
                                Kind.ANSWER, frame.call, body=pickle.dumps(appliance_views.here())
                            ),
                        )
                    case Kind.ANSWER:
                        if future := self._asked.get(frame.call):
                            future.set_result(frame.body)
        self._people = None
        for future in list(self._asked.values()):
            future.cancel()

    def _answer(self, connection: socket.socket, question: Frame) -> None:
        scope, body = pickle.loads(question.body)  # noqa: S301 - from our own process
        self._reply(connection, question, lambda: self._answerer.answer(scope, io.BytesIO(body)))

    def _decide(self, connection: socket.socket, question: Frame) -> None:
        """All of it on the thread that writes: threads that take turns wait longer for the interpreter than they work."""
        scope, body = pickle.loads(question.body)  # noqa: S301 - from our own process
        try:
            decided = submit(lambda: self._answerer.decide(scope, io.BytesIO(body)))
        except ApplianceError as error:
            busy = refusal(error)
            self._reply(connection, question, lambda: busy)
        else:
            decided.add_done_callback(
                lambda future: self._reply(connection, question, future.result)
            )

    def _reply(
        self, connection: socket.socket, question: Frame, answer: Callable[[], Answer]
    ) -> None:
        try:
            reply = Frame(Kind.ANSWER, question.call, body=pickle.dumps(answer()))
        except Refused as refused:
            reply = Frame(Kind.ANSWER, question.call, body=pickle.dumps(refused.answer))
        except Exception:
            log.exception("a request could not be answered")
            reply = Frame(Kind.REFUSED, question.call)
        self._send(connection, reply)

    def tell(self, call: Call) -> None:
        self._untold.append(call)

    def flush(self) -> None:
        """What was told since; after each commit, and before every answer."""
        if (connection := self._people) is None:
            self._untold.clear()
        else:
            self._send(connection)

    def _send(self, connection: socket.socket, *frames: Frame) -> None:
        """A process that does not read for seconds is hung up on, and so started again. So is one that cannot be told."""
        try:
            with self._sending:
                if told := [self._untold.popleft() for _ in range(len(self._untold))]:
                    frames = (Frame(Kind.TOLD, body=pickle.dumps(told)), *frames)
                if frames:
                    connection.sendall(b"".join(frame.packed() for frame in frames))
        except OSError:
            pipe.hang_up(connection)
        except Exception:
            log.exception("the web's process cannot be told what changed; it is started again")
            pipe.hang_up(connection)

    def ask(self, call: Call) -> Any:
        if (connection := self._people) is None:
            return None
        number = next(self._numbers)
        future = self._asked[number] = Future()
        try:
            self._send(connection, Frame(Kind.ASKED, number, body=pickle.dumps(call)))
            return pickle.loads(future.result(ASK_SECONDS))  # noqa: S301 - from our own process
        except Exception:
            log.exception("the web's process does not say what it has of %s", call[0].__qualname__)
            return None
        finally:
            del self._asked[number]
