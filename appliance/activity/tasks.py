"""Rows of tasks: start, progress, log, end and cancellation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F, QuerySet
from django.utils import timezone

from appliance.accounts.actions import Action, by_row, raise_refusal, register_kind
from appliance.accounts.models import User
from appliance.accounts.permissions import can, can_somewhere
from appliance.activity.models import Task, TaskLine, TaskState
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.prepared import Update, insert
from appliance.db.writer import write_transaction

VIEW = "activity.view"
MAX_LINES = 1000
"""Lines in the log of a task. Later messages are in its row only."""
END_TASK = Update(
    lambda path, kind, state, at: (
        Task.objects.filter(path=path, kind=kind, state=TaskState.RUNNING),
        {
            "state": state,
            "progress_percent": 100,
            "error": None,
            "ended_at": at,
            "version": F("version") + 1,
        },
    ),
    returning=["id"],
)


class Canceller(NamedTuple):
    """Privileges and function that cancel tasks of one kind."""

    privilege: str
    """Needed to cancel a task of another user, in the task's project if it has one."""
    own_privilege: str
    """Needed to cancel a task that the caller started."""
    cancel: Callable[[Task, User], None]
    """Stops the work. Called inside the transaction, after the row's state is cancelled."""


_cancellers: dict[str, Canceller] = {}
_advice: dict[str, str] = {}


def register_canceller(
    kind: str, privilege: str, cancel: Callable[[Task, User], None], own_privilege: str = ""
) -> None:
    """Make tasks of this kind cancellable. `own_privilege` defaults to `privilege`."""
    _cancellers[kind] = Canceller(privilege, own_privilege or privilege, cancel)


def advise_to_cancel(kind: str, advice: str) -> None:
    """Tell who cancels a task of a kind that has no canceller what to do."""
    _advice[kind] = advice


def cancellable(task: Task) -> bool:
    return task.state == TaskState.RUNNING and task.kind in _cancellers


@write_transaction
def cancel(*, task_id: UUID, user: User) -> Task:
    """Cancel a running task. The canceller of its kind decides which effects are rolled back.

    Raises:
        ApplianceError: NOT_SUPPORTED if tasks of this kind cannot be cancelled, DENIED if the
            user lacks the privilege, CONFLICT if the task has ended.
    """
    task = Task.objects.select_related("initiator").get(pk=task_id)
    raise_refusal(cancel_refusal(user, task))
    task_cancel(path=task.path, kind=task.kind, reason=f"cancelled by {user.username}")
    record(task, "cancelled", {"state": task.state}, {"state": str(TaskState.CANCELLED)})
    _cancellers[task.kind].cancel(task, user)
    task.refresh_from_db()
    return task


def cancel_refusal(user: User, task: Task) -> ApplianceError | None:
    canceller = _cancellers.get(task.kind)
    if canceller is None:
        text = f"A task of kind {task.kind} cannot be cancelled. {_advice.get(task.kind, '')}"
        return ApplianceError(Code.NOT_SUPPORTED, text.rstrip())
    own = task.initiator_id == user.pk
    needed = canceller.own_privilege if own else canceller.privilege
    if not can(user, needed, task.project_id):
        return ApplianceError(
            Code.DENIED,
            f"Cancelling this task needs the privilege {needed};"
            " ask its initiator or an operator to cancel it.",
        )
    if task.state != TaskState.RUNNING:
        return ApplianceError(Code.CONFLICT, f"The task has already ended: {task.state}.")
    return None


def task_start(
    *,
    kind: str,
    path: str,
    initiator: User | None,
    message: str = "",
    project_id: UUID | None = None,
    parent: Task | None = None,
) -> Task:
    """Insert a running task. Must be called inside a transaction."""
    task = insert(
        Task(
            kind=kind,
            path=path,
            initiator=initiator,
            message=message[:500],
            project_id=project_id,
            parent=parent,
            state=TaskState.RUNNING,
        )
    )
    change_log.record(Topic.TASK, task.pk)
    return task


@write_transaction
def task_log(*, path: str, kind: str, message: str, progress_percent: int | None = None) -> None:
    """Log a message of the running task of this kind and path.

    Does nothing if there is no such task, or if this is its latest message already.
    """
    for task in Task.objects.filter(path=path, kind=kind, state=TaskState.RUNNING).exclude(
        message=message[:500]
    ):
        task.message = message[:500]
        if progress_percent is not None:
            task.progress_percent = progress_percent
        task.version += 1
        task.save(update_fields=["message", "progress_percent", "version"])
        add_line(task)
        change_log.record(Topic.TASK, task.pk)


def add_line(task: Task) -> None:
    """Add the message of a task to its log, unless that is full: nodes and machines cause lines."""
    if TaskLine.objects.filter(task=task).count() < MAX_LINES:
        insert(TaskLine(task=task, message=task.message, progress_percent=task.progress_percent))


@write_transaction
def task_update(*, task_id: UUID, **changes: object) -> bool:
    """Update columns of a running task. A new message is also added to its log.

    Returns False without any change if the task is not running.
    """
    if not Task.objects.filter(pk=task_id, state=TaskState.RUNNING).update(
        version=F("version") + 1, **changes
    ):
        return False
    if "message" in changes:
        add_line(Task.objects.get(pk=task_id))
    change_log.record(Topic.TASK, task_id)
    return True


@write_transaction
def task_end(*, path: str, kind: str, error: str | None = None) -> None:
    """End the running task of this kind and path, if there is one, as succeeded or failed."""
    for (task_id,) in END_TASK.rows(
        path=path,
        kind=kind,
        state=str(TaskState.FAILED if error else TaskState.SUCCEEDED),
        at=timezone.now(),
    ):
        if error:
            Task.objects.filter(pk=task_id).update(error={"detail": error})
        change_log.record(Topic.TASK, task_id)


@write_transaction
def task_finish(*, task_id: UUID, error: dict[str, Any] | None = None) -> None:
    """End a task by its id, if it is running, as succeeded or failed."""
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
        change_log.record(Topic.TASK, task_id)


@write_transaction
def task_cancel(*, path: str, kind: str, reason: str) -> None:
    """Set the running task of this kind and path to cancelled. The caller stops its work."""
    for task in Task.objects.filter(path=path, kind=kind, state=TaskState.RUNNING):
        changes: dict[str, Any] = {
            "state": TaskState.CANCELLED,
            "ended_at": timezone.now(),
            "version": F("version") + 1,
        }
        if Task.objects.filter(pk=task.pk, state=TaskState.RUNNING).update(
            error={"code": "cancelled", "detail": reason}, **changes
        ):
            change_log.record(Topic.TASK, task.pk)


@write_transaction
def fail_interrupted(*, kind: str, detail: str) -> None:
    """Fail the tasks of this kind that an earlier process left running. Called at start."""
    for task in Task.objects.filter(kind=kind, state=TaskState.RUNNING):
        task_finish(task_id=task.pk, error={"code": "interrupted", "detail": detail})


def visible_tasks(user: User) -> QuerySet[Task]:
    return Task.objects.visible_to(user) if can_somewhere(user, VIEW) else Task.objects.none()


TASKS = register_kind("tasks", visible_tasks)
CANCEL = TASKS.add(Action("cancel", VIEW, by_row(cancel_refusal)))
