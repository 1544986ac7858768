"""Database access by thread: writes on the writer thread, reads in bounded thread pools.

The writer thread commits several writes in one transaction, because a durable commit takes
milliseconds. Event loops never use the ORM.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from django.conf import settings
from django.db import (
    IntegrityError,
    InterfaceError,
    OperationalError,
    connection,
    connections,
    transaction,
)

from appliance.db import change_log, origin
from appliance.db.lock_timeout import limited_transaction
from appliance.runtime.background import thread_of
from appliance.runtime.each import run_each
from appliance.runtime.failpoints import failpoint

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

log = logging.getLogger(__name__)

READ_THREADS, REQUEST_THREADS, FLEET_THREADS, BACKGROUND_THREADS = 2, 5, 4, 2
RENEWAL_THREADS, LOGIN_THREADS, ANONYMOUS_THREADS = 2, 2, 1
DIRECTORY_LOGIN_THREADS, PROVIDER_THREADS = 8, 4
MAX_PENDING_WRITES = 512
MAX_WRITES_PER_COMMIT = 32
TRANSIENT_ERRORS = (OperationalError, InterfaceError)
"""Errors such as a deadlock: the item is not at fault, and a repetition may succeed."""


class WriterBusyError(Exception):
    """Too many writes are pending."""


class ThreadState(threading.local):
    in_write = False
    """This thread runs a service that writes."""
    in_batch = False
    """An error rolls back the whole batch, which is then repeated with savepoints."""


_state = ThreadState()


def run_in_transaction(work: Callable[[], R]) -> R:
    """Run work in a transaction, or in a savepoint of the open one.

    An exception or `transaction.set_rollback(True)` rolls it back.
    """
    savepoint = change_log.savepoint()
    _state.in_write = True
    try:
        with limited_transaction():
            result = work()
            rolled_back = transaction.get_rollback()
    except Exception:
        change_log.roll_back(savepoint)
        raise
    finally:
        _state.in_write = False
    if rolled_back:
        change_log.roll_back(savepoint)
    return result


def run_in_savepoint(
    work: Callable[[], None], errors: tuple[type[Exception], ...], otherwise: Callable[[], None]
) -> None:
    """Run a part of a service. After one of these errors, roll back the part and run `otherwise`.

    In a batch without savepoints the error propagates, and the batch is repeated with savepoints.
    """
    if _state.in_batch:
        work()
        return
    savepoint = change_log.savepoint()
    try:
        with transaction.atomic():
            work()
    except errors:
        change_log.roll_back(savepoint)
        otherwise()


def run_each_in_savepoint(
    what: str,
    items: Iterable[T],
    work: Callable[[T], object],
    name: Callable[[T], Any] = str,
    *,
    propagates: tuple[type[Exception], ...] = (),
) -> list[T]:
    """Run a part of a service for each item. One that fails is logged and rolled back alone.

    Return the items that failed.

    A caller that does not see a failed item again lets TRANSIENT_ERRORS propagate, and is repeated
    as a whole. In a batch without savepoints each error propagates, as in `run_in_savepoint`.
    """

    def run(item: T) -> None:
        savepoint = change_log.savepoint()
        try:
            with transaction.atomic():
                work(item)
        except Exception:
            change_log.roll_back(savepoint)
            raise

    if _state.in_batch:
        return run_each(what, items, work, name, (Exception,))
    return run_each(what, items, run, name, propagates)


Writes = Sequence[tuple[Callable[[], Any], Future[Any]]]
Outcome = tuple[Future[Any], Any, BaseException | None]


def check_before_commit() -> None:
    """Raise an error if the connection was lost or closed: Django would commit nothing, silently.

    Raises RuntimeError after a close, InterfaceError after a savepoint that did not roll back, and
    the errors of check_transaction().
    """
    if connection.closed_in_transaction:
        raise RuntimeError("the database connection was closed inside the transaction")
    check_transaction()
    if transaction.get_rollback():
        raise InterfaceError("the transaction was rolled back: a savepoint was lost")
    failpoint("commit.before")


def check_transaction() -> None:
    """Raise OperationalError if SQLite has rolled back the transaction because the disk is full.

    Later statements would each commit by themselves.
    """
    if connection.vendor == "sqlite" and not connection.connection.in_transaction:
        raise OperationalError("the transaction was rolled back: database or disk is full")


def commit_batch(batch: Writes) -> list[Outcome] | None:
    """Run all writes in one transaction without savepoints, which cost a third of the work.

    Return None, with everything rolled back, if one of them fails or requests a rollback.
    """
    done: list[Outcome] = []
    rolled_back = False
    _state.in_write = _state.in_batch = True
    try:
        with limited_transaction():
            for work, future in batch:
                done.append((future, work(), None))
                if rolled_back := transaction.get_rollback():
                    break
            else:
                check_before_commit()
    except Exception:
        rolled_back = True
    finally:
        _state.in_write = _state.in_batch = False
    if rolled_back:
        change_log.roll_back()
        return None
    return done


def commit_with_savepoints(batch: Writes) -> list[Outcome]:
    """Run all writes in one transaction, each in a savepoint, so that each fails by itself.

    Raises if the commit fails.
    """
    done: list[Outcome] = []
    with limited_transaction():
        for work, future in batch:
            try:
                done.append((future, run_in_transaction(work), None))
            except Exception as error:
                check_transaction()
                done.append((future, None, error))
        check_before_commit()
    return done


class Writer:
    """The writer thread and its queue."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = thread_of("writer", self._run)
        self._thread.start()

    def submit(self, work: Callable[[], R], *, must: bool = False) -> Future[R]:
        """Queue a write. The future completes after its commit.

        Raises WriterBusyError if MAX_PENDING_WRITES are pending, but not with `must`: such writes
        come from agents and own threads, whose number is bounded.
        """
        if not must and self.waiting >= MAX_PENDING_WRITES:
            raise WriterBusyError(
                "The appliance has too many pending changes; try again in a second."
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
        """Commit the pending writes and end the thread."""
        self._queue.put(None)
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while True:
            batch = [self._queue.get()]
            while len(batch) < MAX_WRITES_PER_COMMIT and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            stopping = None in batch
            # A caller that no longer waits may have cancelled its future.
            if writes := [b for b in batch if b and b[1].set_running_or_notify_cancel()]:
                self._commit(writes)
            if stopping:
                connection.close()
                return

    def _commit(self, batch: Writes) -> None:
        """Commit writes together. If a foreign key fails, which only a commit tells, one by one."""
        try:
            # With other schedulers on PostgreSQL, errors are ordinary and batches would often fail.
            done = None if settings.ENVIRONMENT.database else commit_batch(batch)
            done = commit_with_savepoints(batch) if done is None else done
            failpoint("commit.after")
        except Exception as error:
            if isinstance(error, IntegrityError) and len(batch) > 1:
                change_log.roll_back()
                for write in batch:
                    self._commit([write])
                return
            log.exception("writer: commit failed, %d writes were rolled back", len(batch))
            change_log.roll_back()
            connection.close()
            done = [(future, None, error) for _, future in batch]
        for future, value, problem in done:
            if problem is None:
                future.set_result(value)
            else:
                future.set_exception(problem)


class ReadOnlyWriter:
    """Writer of a process that must not change rows."""

    waiting = 0

    def submit(self, work: Callable[[], R], *, must: bool = False) -> Future[R]:
        """Raise RuntimeError: only the controller process writes to the database."""
        raise RuntimeError("only the controller process writes to the database")


class DatabaseThreads(ThreadPoolExecutor):
    """Threads that keep their connections, and open those again that were lost."""

    def submit(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return super().submit(self._run, partial(work, *args, **kwargs))

    def _run(self, work: Callable[[], R]) -> R:
        try:
            return work()
        finally:
            for kept in connections.all(initialized_only=True):
                vars(kept)["health_check_done"] = False  # so the next work checks it first


_writer: Writer | ReadOnlyWriter | None = None
read_pool = DatabaseThreads(READ_THREADS, thread_name_prefix="read")
"""Serves safe requests. More threads would only contend for the GIL."""
request_pool = DatabaseThreads(REQUEST_THREADS, thread_name_prefix="request")
"""Serves unsafe requests that wait for the writer thread."""
renewal_pool = DatabaseThreads(RENEWAL_THREADS, thread_name_prefix="renewal")
"""Serves heartbeats of allocations, so that other requests do not delay them."""
login_pool = DatabaseThreads(LOGIN_THREADS, thread_name_prefix="login")
"""Checks passwords: one of a known client and one of an unknown client at a time."""
directory_login_pool = DatabaseThreads(DIRECTORY_LOGIN_THREADS, thread_name_prefix="dlogin")
"""Waits for the directory that checks a password, so that others do not."""
provider_pool = DatabaseThreads(PROVIDER_THREADS, thread_name_prefix="provider")
"""Waits for identity providers."""
anonymous_pool = DatabaseThreads(ANONYMOUS_THREADS, thread_name_prefix="anonymous")
"""Serves requests without a token that was valid lately."""
fleet_pool = DatabaseThreads(FLEET_THREADS, thread_name_prefix="fleet")
"""Serves agents, so that many clients do not delay them."""
background_pool = DatabaseThreads(BACKGROUND_THREADS, thread_name_prefix="background")
"""Runs periodic work."""


async def run_in_thread(work: Callable[[], R], threads: ThreadPoolExecutor = request_pool) -> R:
    """Run work that blocks or uses the ORM on one of these threads."""
    return await asyncio.get_running_loop().run_in_executor(threads, work)


def submit_write(work: Callable[[], R], *, must: bool = False) -> Future[R]:
    """Queue work for the writer thread; without a writer thread, run it at once.

    Raises WriterBusyError, see Writer.submit.
    """
    if _writer is not None:
        return _writer.submit(work, must=must)
    future: Future[R] = Future()
    try:
        future.set_result(run_in_transaction(work))
    except Exception as error:
        future.set_exception(error)
    return future


def waiting_writes() -> int:
    return _writer.waiting if _writer else 0


def start_writer() -> Writer:
    global _writer
    _writer = writer = Writer()
    return writer


def use_read_only_writer() -> None:
    global _writer
    _writer = ReadOnlyWriter()


def dry_run(work: Callable[[], R]) -> R:
    """Return the result of `work` and roll back its changes, but not those of an outer service."""

    @write_transaction
    def run() -> R:
        savepoint = change_log.savepoint()
        with transaction.atomic():
            result = work()
            transaction.set_rollback(True)
        change_log.roll_back(savepoint)
        return result

    return run()


def write_transaction(function: Callable[P, R]) -> Callable[P, R]:
    """Run a service in one transaction on the writer thread. The caller blocks until the commit.

    Without a writer thread it runs on the calling thread. Services nest without savepoints: the
    outermost one commits or rolls back everything, so a service must not catch errors of another.
    The function may run twice, so it must have no effects outside the database before the commit.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if _state.in_write:
            return function(*args, **kwargs)
        if _writer is None:
            return run_in_transaction(lambda: function(*args, **kwargs))
        work = origin.carry(lambda: function(*args, **kwargs))
        return _writer.submit(work, must=True).result()

    return wrapper
