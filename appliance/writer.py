"""Where the ORM runs: writes on one thread, several in one commit; reads in a bounded pool. The event loop never does either."""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar, cast

from django.conf import settings
from django.db import connection, transaction

from appliance.errors import ApplianceError, Code
from appliance.failpoints import reach

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger(__name__)

LISTER_THREADS, READER_THREADS, FLEET_THREADS = 2, 5, 4
MAX_WAITING_WRITES = 512
MAX_WRITES_A_COMMIT = 32


_rollback_listeners: list[Callable[[], None]] = []


def on_rollback(listener: Callable[[], None]) -> None:
    """For what is kept in memory of rows: called on the writing thread when changes were undone."""
    _rollback_listeners.append(listener)


_commit_listeners: list[Callable[[], None]] = []


def on_committed(listener: Callable[[], None]) -> None:
    """Called on the writing thread after each commit, before anybody is answered. It must not raise."""
    _commit_listeners.append(listener)


def rolled_back() -> None:
    for listener in _rollback_listeners:
        listener()


class Inside(threading.local):
    writing = False
    hopeful = False
    """An error undoes the whole commit, and then it is made again with savepoints."""


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


def may_fail(
    work: Callable[[], None], errors: tuple[type[Exception], ...], otherwise: Callable[[], None]
) -> None:
    """Part of a service: these errors undo only this part, and then `otherwise` is done."""
    if _inside.hopeful:
        work()
        return
    try:
        with transaction.atomic():
            work()
    except errors:
        otherwise()


Writes = Sequence[tuple[Callable[[], Any], Future[Any]]]
Outcome = tuple[Future[Any], Any, BaseException | None]


def about_to_commit() -> None:
    if connection.closed_in_transaction:
        raise RuntimeError(
            "the connection was closed in the transaction: Django would commit nothing and say nothing"
        )
    reach("commit.before")


def hopefully(batch: Writes) -> list[Outcome] | None:
    """All of it in one commit without savepoints, which cost as much as a third of the work; None, and nothing is done, when one of them fails."""
    _inside.writing = _inside.hopeful = True
    try:
        with transaction.atomic():
            done: list[Outcome] = [(future, work(), None) for work, future in batch]
            about_to_commit()
        return done
    except Exception:
        rolled_back()
        return None
    finally:
        _inside.writing = _inside.hopeful = False


def carefully(batch: Writes) -> list[Outcome]:
    """One commit, each write in a savepoint: what fails is undone by itself. Raises when the commit fails."""
    done: list[Outcome] = []
    with transaction.atomic():
        for work, future in batch:
            try:
                done.append((future, write(work), None))
            except Exception as error:
                done.append((future, None, error))
        about_to_commit()
    return done


class Writer:
    """The writer thread. A durable commit costs milliseconds, so whatever waits is committed together."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], R], *, must: bool = False) -> Future[R]:
        """Raises ApplianceError when too many wait already; not what `must`, of which there are as many as nodes and our own threads at most."""
        if not must and self.waiting >= MAX_WAITING_WRITES:
            raise ApplianceError(
                Code.BUSY, "The appliance has too many changes waiting; try again in a second."
            )
        future: Future[R] = Future()
        self._queue.put((work, future))
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
            if wanted := [b for b in batch if b is not None]:
                self._commit(wanted)
            if stopping:
                connection.close()
                return

    def _commit(self, batch: Writes) -> None:
        try:
            done = (
                None if settings.ENVIRONMENT.database else hopefully(batch)
            )  # other schedulers make errors ordinary there
            done = carefully(batch) if done is None else done
            reach("commit.after")
        except Exception as error:
            log.exception("commit failed")
            rolled_back()
            connection.close()
            done = [(future, None, error) for _, future in batch]
        for listener in _commit_listeners:
            listener()
        for future, value, problem in done:
            if problem is None:
                future.set_result(value)
            else:
                future.set_exception(problem)


class Elsewhere:
    """In a process that only looks."""

    waiting = 0

    def submit(self, work: Callable[[], R], *, must: bool = False) -> Future[R]:
        raise RuntimeError("rows are changed by the process that decides")


_writer: Writer | Elsewhere | None = None
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


def submit(work: Callable[[], R], *, must: bool = False) -> Future[R]:
    """On the writer's thread where there is one, in a commit with others. Raises ApplianceError when too many wait, but not for what `must`."""
    if _writer is not None:
        return _writer.submit(work, must=must)
    future: Future[R] = Future()
    try:
        future.set_result(write(work))
    except Exception as error:
        future.set_exception(error)
    return future


def waiting_writes() -> int:
    return _writer.waiting if _writer else 0


def start_writer() -> Writer:
    global _writer
    _writer = made = Writer()
    return made


def only_look() -> None:
    """In this process nothing changes rows."""
    global _writer
    _writer = Elsewhere()


class Undone(Exception):
    """Carries an answer out of a transaction that is not to happen."""

    def __init__(self, answer: object) -> None:
        self.answer = answer


def undone(work: Callable[[], R]) -> R:
    """What `work` answers; whatever it changed is changed back, and nobody is told."""

    @writes
    def run() -> R:
        try:
            with (
                transaction.atomic()
            ):  # its own savepoint: as a part of a larger change, only this is undone
                raise Undone(work())
        except Undone:
            rolled_back()
            raise

    try:
        return run()
    except Undone as end:
        return cast("R", end.answer)


def writes(function: Callable[P, R]) -> Callable[P, R]:
    """A service that changes rows: runs in one transaction, on the writer thread where there is one. Blocks until committed.

    It may run twice, the first time for nothing: so it changes nothing but rows, except with the commit.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if _inside.writing:
            return function(*args, **kwargs)  # the outermost decides: all of it or nothing
        if _writer is None:
            return write(lambda: function(*args, **kwargs))
        return _writer.submit(
            lambda: function(*args, **kwargs), must=True
        ).result()  # a thread waits: they are few

    return wrapper
