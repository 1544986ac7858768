"""Long work in the background: a task's progress, its result and its end, whatever happens."""

from __future__ import annotations

import logging
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


def run(task: Task, work: Callable[[Progress], None]) -> None:
    """Starts the work on a thread of the task runner. What `work` holds lives in this process's memory only."""

    def guarded() -> None:
        try:
            work(Progress(task.pk))
            task_finish(task_id=task.pk)
        except ApplianceError as error:
            task_finish(task_id=task.pk, error={"code": str(error.code), "detail": error.detail, **error.fields})
        except Exception:
            log.exception("task %s (%s) broke", task.pk, task.kind)
            task_finish(task_id=task.pk, error={"code": "internal", "detail": "Something broke here; the appliance's log says what."})
        finally:
            connection.close()

    _runners.submit(guarded)


@writes
def fail_interrupted(*, kind: str, detail: str) -> None:
    """At start: tasks of this kind that an earlier process was at."""
    for task in Task.objects.filter(kind=kind, state=TaskState.RUNNING):
        task_finish(task_id=task.pk, error={"code": "interrupted", "detail": detail})
