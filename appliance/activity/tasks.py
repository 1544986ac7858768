"""Long work in the background: a task's progress, its result and its end, whatever happens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F
from django.utils import timezone

from appliance.activity.feed import hub
from appliance.activity.models import Task, TaskState
from appliance.errors import ApplianceError
from appliance.writer import writes

log = logging.getLogger(__name__)

PARALLEL_TASKS = 8

_ending = threading.Event()
_runners = ThreadPoolExecutor(PARALLEL_TASKS, thread_name_prefix="task")


class Progress:
    """What the work says of itself."""

    def __init__(self, task_id: UUID) -> None:
        self.task_id = task_id

    def say(self, percent: int, message: str) -> None:
        task_update(task_id=self.task_id, progress_percent=percent, message=message[:500])

    def result(self, result: dict[str, Any]) -> None:
        task_update(task_id=self.task_id, result=result)


@writes
def task_update(*, task_id: UUID, **changes: object) -> None:
    """Only while it runs."""
    if Task.objects.filter(pk=task_id, state=TaskState.RUNNING).update(version=F("version") + 1, **changes):
        hub.changed("task", task_id)


@writes
def task_finish(*, task_id: UUID, error: dict[str, Any] | None = None) -> None:
    state = TaskState.FAILED if error else TaskState.SUCCEEDED
    changes: dict[str, Any] = {"state": state, "error": error, "ended_at": timezone.now(), "version": F("version") + 1}
    if not error:
        changes["progress_percent"] = 100
    if Task.objects.filter(pk=task_id, state=TaskState.RUNNING).update(**changes):
        hub.changed("task", task_id)


@writes
def task_cancel(*, path: str, kind: str, actor: str) -> None:
    """Whoever runs it has stopped already, or is a loop that looks at rows."""
    for task in Task.objects.filter(path=path, kind=kind, state=TaskState.RUNNING):
        changes: dict[str, Any] = {"state": TaskState.CANCELLED, "ended_at": timezone.now(), "version": F("version") + 1}
        if Task.objects.filter(pk=task.pk, state=TaskState.RUNNING).update(error={"code": "cancelled", "detail": f"cancelled by {actor}"}, **changes):
            hub.changed("task", task.pk)


def abandon() -> None:
    """This process ends: what still runs stays in its row as running, and the next start says that it was interrupted."""
    _ending.set()


def run(task: Task, work: Callable[[Progress], None]) -> None:
    """Starts the work on a thread of the task runner. What `work` holds lives in this process's memory only."""

    def guarded() -> None:
        error = attempt(task, work)
        if not _ending.is_set():
            task_finish(task_id=task.pk, error=error)
        connection.close()

    _runners.submit(guarded)


def attempt(task: Task, work: Callable[[Progress], None]) -> dict[str, Any] | None:
    """None, or why it failed."""
    try:
        work(Progress(task.pk))
    except ApplianceError as error:
        return {"code": str(error.code), "detail": error.detail, **error.fields}
    except Exception:
        log.exception("task %s (%s) broke", task.pk, task.kind)
        return {"code": "internal", "detail": "Something broke here; the appliance's log says what."}
    return None


@writes
def fail_interrupted(*, kind: str, detail: str) -> None:
    """At start: tasks of this kind that an earlier process was at."""
    for task in Task.objects.filter(kind=kind, state=TaskState.RUNNING):
        task_finish(task_id=task.pk, error={"code": "interrupted", "detail": detail})
