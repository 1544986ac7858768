"""Recording of events."""

from __future__ import annotations

from uuid import UUID

from appliance.activity.models import Event
from appliance.api.refusals import SYSTEM
from appliance.db import change_log
from appliance.db.change_log import OBJECT_TOPICS, Topic
from appliance.db.prepared import insert


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
    """Record an event. Must be called inside the transaction that makes the change.

    `kind` is `<object kind>.<what happened>`. With `object_id` the object is announced on the
    feed as changed, too.
    """
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
    change_log.record(Topic.EVENT, event.pk)
    object_kind = kind.partition(".")[0]
    if object_id is not None and object_kind in OBJECT_TOPICS:
        change_log.record(Topic(object_kind), object_id)
    return event
