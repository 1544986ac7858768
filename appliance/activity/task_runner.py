"""Thread pool that runs the work of tasks in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from django.db import connection

from appliance.activity.models import Task
from appliance.activity.tasks import task_finish, task_update
from appliance.api.errors import ApplianceError

log = logging.getLogger(__name__)

MAX_PARALLEL_TASKS = 8

_shutting_down = threading.Event()
_pool = ThreadPoolExecutor(MAX_PARALLEL_TASKS, thread_name_prefix="task")


class TaskCancelled(Exception):
    """Raised inside the work of a task that a user cancelled."""


class Progress:
    """Progress reports of the work of one task."""

    def __init__(self, task_id: UUID) -> None:
        self.task_id = task_id

    def report(self, percent: int, message: str) -> None:
        """Log a message. Raises TaskCancelled if the task was cancelled."""
        if not self.report_final(percent, message):
            raise TaskCancelled

    def report_final(self, percent: int, message: str) -> bool:
        """Log a message after the point of no return. Returns False if the task was cancelled."""
        return task_update(task_id=self.task_id, progress_percent=percent, message=message[:500])

    def set_result(self, result: dict[str, Any]) -> None:
        task_update(task_id=self.task_id, result=result)


def submit(task: Task, work: Callable[[Progress], None]) -> None:
    """Run the work of a task on a pool thread and end the task with its outcome.

    The work exists only in the memory of this process; see `fail_interrupted` for a restart.
    """

    def run() -> None:
        error = run_work(task, work)
        if not _shutting_down.is_set():
            task_finish(task_id=task.pk, error=error)
        connection.close()

    _pool.submit(run)


def run_work(task: Task, work: Callable[[Progress], None]) -> dict[str, Any] | None:
    """Run the work and return None, or the error of the task."""
    try:
        work(Progress(task.pk))
    except TaskCancelled:
        return None  # the row has state cancelled already
    except ApplianceError as error:
        return {"code": str(error.code), "detail": error.detail, **error.fields}
    except Exception:
        log.exception(
            "task_runner: task %s (%s) raised an exception; task failed", task.pk, task.kind
        )
        return {
            "code": "internal",
            "detail": "Internal error; see the appliance's log for the traceback.",
        }
    return None


def shut_down() -> None:
    """Leave the rows of unfinished tasks running; the next start fails them as interrupted."""
    _shutting_down.set()
