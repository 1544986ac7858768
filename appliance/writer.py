"""Where the ORM runs: writes on one thread, several in one commit; reads in a bounded pool. The event loop never does either."""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from django.db import connection, transaction

from appliance.errors import ApplianceError, Code

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)

READER_THREADS = 8
MAX_WAITING_WRITES = 512
MAX_WRITES_A_COMMIT = 32


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
                        with transaction.atomic():
                            done.append((future, work(), None))
                    except Exception as error:
                        rolled_back()
                        done.append((future, None, error))
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


_rollback_listeners: list[Callable[[], None]] = []


def on_rollback(listener: Callable[[], None]) -> None:
    """For what is kept in memory of rows: called on the writing thread when changes were undone."""
    _rollback_listeners.append(listener)


def rolled_back() -> None:
    for listener in _rollback_listeners:
        listener()


_writer: Writer | None = None
readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="reader")


async def off_loop(work: Callable[[], R]) -> R:
    """Runs what may block or touch the ORM on a reader thread."""
    return await asyncio.get_running_loop().run_in_executor(readers, work)


def start_writer() -> Writer:
    global _writer
    if _writer is None:
        _writer = Writer()
    return _writer


def writes(function: Callable[P, R]) -> Callable[P, R]:
    """A service that changes rows: runs in one transaction, on the writer thread where there is one. Blocks until committed."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if _writer is None or _writer.is_current_thread():
            try:
                with transaction.atomic():
                    return function(*args, **kwargs)
            except Exception:
                rolled_back()
                raise
        return _writer.submit(lambda: function(*args, **kwargs)).result()

    return wrapper
