"""Events, tasks and idempotent answers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from appliance.accounts.models import User
from appliance.activity.feed import hub
from appliance.activity.models import Event, IdempotencyKey, Task, TaskLine, TaskState
from appliance.errors import ApplianceError, Code
from appliance.prepared import Select, Update, insert
from appliance.writer import writes

SYSTEM = "system"
KEY_LIFE = timedelta(hours=24)

KEPT_ANSWER = Select(lambda user_id, key: IdempotencyKey.objects.filter(user_id=user_id, key=key))
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


def emit(
    kind: str,
    *,
    path: str,
    message: str,
    actor: str = SYSTEM,
    object_id: UUID | None = None,
    project_id: UUID | None = None,
    **data: object,
) -> Event:
    """One row for one thing that happened. Call inside the transaction that made it happen."""
    event = insert(
        Event(
            kind=kind,
            path=path,
            message=message[:500],
            actor=actor,
            object_id=object_id,
            project_id=project_id,
            data=data,
        )
    )
    hub.changed("event", event.pk)
    if object_id is not None:
        hub.changed(kind.partition(".")[0], object_id)
    return event


def remember_answer(
    *, user_id: UUID, key: str, digest: str, effect: Callable[[], tuple[int, dict[str, Any]]]
) -> tuple[int, dict[str, Any]]:
    """The kept answer of an equal request, or a fresh one that is kept. Inside a transaction."""
    kept = KEPT_ANSWER.first(user_id=user_id, key=key)
    if kept is not None:
        if kept.request_sha256 != digest:
            raise ApplianceError(
                Code.IDEMPOTENCY_MISMATCH,
                "This Idempotency-Key was used for another request; use a new one.",
            )
        return kept.status, kept.answer
    status, body = effect()
    insert(
        IdempotencyKey(user_id=user_id, key=key, request_sha256=digest, status=status, answer=body)
    )
    return status, body


@writes
def forget_old_answers() -> None:
    IdempotencyKey.objects.filter(created_at__lt=timezone.now() - KEY_LIFE).delete()


def task_start(
    *, kind: str, path: str, initiator: User | None, message: str = "", project_id: UUID | None = None, parent: Task | None = None
) -> Task:  # fmt: skip
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
    hub.changed("task", task.pk)
    return task


@writes
def task_say(*, path: str, kind: str, message: str, progress_percent: int | None = None) -> None:
    """A line in the log of the running task of this kind on this object, if there is one and it did not say so just now."""
    for task in Task.objects.filter(path=path, kind=kind, state=TaskState.RUNNING).exclude(
        message=message[:500]
    ):
        task.message = message[:500]
        task.progress_percent = (
            task.progress_percent if progress_percent is None else progress_percent
        )
        task.version += 1
        task.save(update_fields=["message", "progress_percent", "version"])
        insert(TaskLine(task=task, message=task.message, progress_percent=task.progress_percent))
        hub.changed("task", task.pk)


@writes
def task_end(*, path: str, kind: str, error: str | None = None) -> None:
    """Ends the running task of this kind on this object, if there is one."""
    for (task_id,) in END_TASK.rows(
        path=path,
        kind=kind,
        state=str(TaskState.FAILED if error else TaskState.SUCCEEDED),
        at=timezone.now(),
    ):
        if error:
            Task.objects.filter(pk=task_id).update(error={"detail": error})
        hub.changed("task", task_id)
