"""Where the ORM runs: writes on one thread, several in one commit; reads in a bounded pool. The event loop never does either."""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar, cast

from django.db import connection, transaction

from appliance.errors import ApplianceError, Code
from appliance.failpoints import reach

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)

LISTER_THREADS, READER_THREADS, FLEET_THREADS = 3, 5, 4
MAX_WAITING_WRITES = 512
MAX_WRITES_A_COMMIT = 32


_rollback_listeners: list[Callable[[], None]] = []


def on_rollback(listener: Callable[[], None]) -> None:
    """For what is kept in memory of rows: called on the writing thread when changes were undone."""
    _rollback_listeners.append(listener)


def rolled_back() -> None:
    for listener in _rollback_listeners:
        listener()


class Inside(threading.local):
    writing = False


_inside = Inside()
"""Whether this thread is in a service that changes rows."""


def write(work: Callable[[], R]) -> R:
    """All of it or nothing."""
    _inside.writing = True
    try:
        with transaction.atomic():
            return work()
    except Exception:
        rolled_back()
        raise
    finally:
        _inside.writing = False


class Writer:
    """The writer thread. A durable commit costs milliseconds, so whatever waits is committed together, each write in a savepoint."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[Callable[[], Any], Future[Any]] | None] = queue.Queue(MAX_WAITING_WRITES)
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], R]) -> Future[R]:
        future: Future[R] = Future()
        try:
            self._queue.put_nowait((work, future))
        except queue.Full:
            raise ApplianceError(Code.BUSY, "The appliance has too many changes waiting; try again in a second.") from None
        return future

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    def is_current_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        self._queue.put(None)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while True:
            batch = [self._queue.get()]
            while len(batch) < MAX_WRITES_A_COMMIT and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            stopping = None in batch
            self._commit([b for b in batch if b is not None])
            if stopping:
                connection.close()
                return

    def _commit(self, batch: list[tuple[Callable[[], Any], Future[Any]]]) -> None:
        done: list[tuple[Future[Any], Any, BaseException | None]] = []
        try:
            with transaction.atomic():
                for work, future in batch:
                    try:
                        done.append((future, write(work), None))
                    except Exception as error:
                        done.append((future, None, error))
                reach("commit.before")
            reach("commit.after")
        except Exception as error:
            log.exception("commit failed")
            rolled_back()
            connection.close()
            done = [(future, None, error) for _, future in batch]
        for future, value, problem in done:
            if problem is None:
                future.set_result(value)
            else:
                future.set_exception(problem)


_writer: Writer | None = None
readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="reader")
"""Of what people change, and wait for."""
listers = ThreadPoolExecutor(LISTER_THREADS, thread_name_prefix="lister")
"""Of what people look at: with more threads they would only take the interpreter from each other, and from those who wait for the writer."""
fleet_readers = ThreadPoolExecutor(FLEET_THREADS, thread_name_prefix="fleet")
"""Of what agents say: a crowd of people must not keep them waiting."""
housekeeping = ThreadPoolExecutor(2, thread_name_prefix="housekeeping")
"""Of what is done every second."""


async def off_loop(work: Callable[[], R], threads: ThreadPoolExecutor = readers) -> R:
    """Runs what may block or touch the ORM on one of these threads."""
    return await asyncio.get_running_loop().run_in_executor(threads, work)


def waiting_writes() -> int:
    return _writer.waiting if _writer else 0


def start_writer() -> Writer:
    global _writer
    if _writer is None:
        _writer = Writer()
    return _writer


class Undone(Exception):
    """Carries an answer out of a transaction that is not to happen."""

    def __init__(self, answer: object) -> None:
        self.answer = answer


def undone(work: Callable[[], R]) -> R:
    """What `work` answers; whatever it changed is changed back, and nobody is told."""

    @writes
    def run() -> R:
        try:
            with transaction.atomic():  # its own savepoint: as a part of a larger change, only this is undone
                raise Undone(work())
        except Undone:
            rolled_back()
            raise

    try:
        return run()
    except Undone as end:
        return cast("R", end.answer)


def writes(function: Callable[P, R]) -> Callable[P, R]:
    """A service that changes rows: runs in one transaction, on the writer thread where there is one. Blocks until committed."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if _inside.writing:
            return function(*args, **kwargs)  # the outermost decides: all of it or nothing
        if _writer is None:
            return write(lambda: function(*args, **kwargs))
        return _writer.submit(lambda: function(*args, **kwargs)).result()

    return wrapper
