"""Work that lasts as long as its process: tasks of the event loop, and threads.

Work that ends by an error is logged and started again. The status of the appliance and the alarm
state `work_failed` name it until it has run for FAILED_SECONDS without another error. Work
whose own loop catches errors and goes on is named, too.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

log = logging.getLogger(__name__)

Work = Callable[[], Coroutine[Any, Any, None]]
"""Lasts until its task is cancelled."""

RESTART_SECONDS = 5.0
FAILED_SECONDS = 300.0
_failed_at: dict[str, float] = {}
"""Monotonic time of the last error by the name of the work."""
_of_other_process: list[str] = []


async def keep_running(work: Work) -> None:
    """Run work until it returns. Start it again after an error. Cancel the task to end it."""
    name = name_of(work)
    while True:
        try:
            await work()
            return
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            note_failure(name, error)  # what it waited for was cancelled
        except Exception as error:
            note_failure(name, error)
        await asyncio.sleep(RESTART_SECONDS)


def name_of(work: Callable[..., object]) -> str:
    function = work.func if isinstance(work, partial) else work
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"


def thread_of(name: str, work: Callable[[], object]) -> threading.Thread:
    """Return a daemon thread that runs work until it returns, again after an error."""

    def run() -> None:
        while True:
            try:
                work()
                return
            except Exception as error:
                note_failure(name, error)
            time.sleep(RESTART_SECONDS)

    return threading.Thread(target=run, name=name, daemon=True)


def note_failure(name: str, error: BaseException) -> None:
    remember_failure(name)
    log.critical(
        "background: %s failed, starting it again in %.0f s", name, RESTART_SECONDS, exc_info=error
    )


def remember_failure(name: str) -> None:
    """Name work whose failure is logged elsewhere."""
    _failed_at[name] = time.monotonic()


def failed_here() -> list[str]:
    """Return the names of the work of this process that failed lately."""
    since = time.monotonic() - FAILED_SECONDS
    return sorted(name for name, at in list(_failed_at.items()) if at > since)


def failed() -> list[str]:
    """Return the names of the work of controller and HTTP server that failed lately."""
    return sorted({*failed_here(), *_of_other_process})


def set_failed_elsewhere(names: Iterable[str]) -> None:
    """Set the names that the other process has sent."""
    _of_other_process[:] = names
