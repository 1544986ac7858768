"""Long work in the background: a task's progress, its result and its end, whatever happens; and how each kind is cancelled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import F
from django.utils import timezone

from appliance.accounts.models import User
from appliance.accounts.permissions import can
from appliance.activity.feed import hub
from appliance.activity.models import Task, TaskLine, TaskState
from appliance.errors import ApplianceError, Code
from appliance.writer import writes

log = logging.getLogger(__name__)

PARALLEL_TASKS = 8

_ending = threading.Event()
_runners = ThreadPoolExecutor(PARALLEL_TASKS, thread_name_prefix="task")


class Canceller(NamedTuple):
    """How tasks of one kind are cancelled."""

    privilege: str
    """Who has it, in the task's project if it has one, may cancel what others began."""
    own: str
    """Whoever began it may cancel it with this one alone."""
    cancel: Callable[[Task, User], None]
    """Stops the work; inside the transaction, and after the row says that it is cancelled."""


_cancellers: dict[str, Canceller] = {}


def register_canceller(
    kind: str, privilege: str, cancel: Callable[[Task, User], None], own: str = ""
) -> None:
    _cancellers[kind] = Canceller(privilege, own or privilege, cancel)


def cancellable(task: Task) -> bool:
    return task.state == TaskState.RUNNING and task.kind in _cancellers


@writes
def cancel(*, task_id: UUID, user: User) -> Task:
    """What was done so far is undone or left as its kind has it."""
    task = Task.objects.select_related("initiator").get(pk=task_id)
    canceller = _cancellers.get(task.kind)
    if canceller is None:
        raise ApplianceError(Code.NOT_SUPPORTED, f"A task of kind {task.kind} cannot be cancelled.")
    needed = canceller.own if task.initiator_id == user.pk else canceller.privilege
    if not can(user, needed, task.project_id):
        raise ApplianceError(
            Code.DENIED,
            f"To cancel this task takes {needed}; who began it or an operator may cancel it.",
        )
    if task.state != TaskState.RUNNING:
        raise ApplianceError(Code.CONFLICT, f"The task has {task.state} already.")
    task_cancel(path=task.path, kind=task.kind, actor=user.username)
    canceller.cancel(task, user)
    task.refresh_from_db()
    return task


class Cancelled(Exception):
    """Raised in the work when somebody cancelled it."""


class Progress:
    """What the work says of itself."""

    def __init__(self, task_id: UUID) -> None:
        self.task_id = task_id

    def say(self, percent: int, message: str) -> None:
        """Raises Cancelled when it shall not go on."""
        if not self.mention(percent, message):
            raise Cancelled

    def mention(self, percent: int, message: str) -> bool:
        """As `say`, from where nothing is undone any more."""
        return task_update(task_id=self.task_id, progress_percent=percent, message=message[:500])

    def result(self, result: dict[str, Any]) -> None:
        task_update(task_id=self.task_id, result=result)


@writes
def task_update(*, task_id: UUID, **changes: object) -> bool:
    """Only while it runs; True when it does. What it says is kept as a line of its log."""
    if not Task.objects.filter(pk=task_id, state=TaskState.RUNNING).update(
        version=F("version") + 1, **changes
    ):
        return False
    if "message" in changes:
        task = Task.objects.get(pk=task_id)
        TaskLine.objects.create(
            task=task, message=task.message, progress_percent=task.progress_percent
        )
    hub.changed("task", task_id)
    return True


@writes
def task_finish(*, task_id: UUID, error: dict[str, Any] | None = None) -> None:
    state = TaskState.FAILED if error else TaskState.SUCCEEDED
    changes: dict[str, Any] = {
        "state": state,
        "error": error,
        "ended_at": timezone.now(),
        "version": F("version") + 1,
    }
    if not error:
        changes["progress_percent"] = 100
    if Task.objects.filter(pk=task_id, state=TaskState.RUNNING).update(**changes):
        hub.changed("task", task_id)


@writes
def task_cancel(*, path: str, kind: str, actor: str) -> None:
    """Whoever runs it has stopped already, or is a loop that looks at rows."""
    for task in Task.objects.filter(path=path, kind=kind, state=TaskState.RUNNING):
        changes: dict[str, Any] = {
            "state": TaskState.CANCELLED,
            "ended_at": timezone.now(),
            "version": F("version") + 1,
        }
        if Task.objects.filter(pk=task.pk, state=TaskState.RUNNING).update(
            error={"code": "cancelled", "detail": f"cancelled by {actor}"}, **changes
        ):
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
    except Cancelled:
        return None  # its row says so already
    except ApplianceError as error:
        return {"code": str(error.code), "detail": error.detail, **error.fields}
    except Exception:
        log.exception("task %s (%s) broke", task.pk, task.kind)
        return {
            "code": "internal",
            "detail": "Something broke here; the appliance's log says what.",
        }
    return None


@writes
def fail_interrupted(*, kind: str, detail: str) -> None:
    """At start: tasks of this kind that an earlier process was at."""
    for task in Task.objects.filter(kind=kind, state=TaskState.RUNNING):
        task_finish(task_id=task.pk, error={"code": "interrupted", "detail": detail})
