"""Raise and clear alarms, with their history, events and actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from django.db.models import F
from django.utils import timezone

from appliance.activity.events import SYSTEM, emit
from appliance.alarms.actions import start_actions
from appliance.alarms.findings import Finding
from appliance.alarms.models import Alarm, AlarmDefinition, AlarmEntry, AlarmState
from appliance.db.prepared import insert
from appliance.db.writer import run_each_in_savepoint, write_transaction


@write_transaction
def raise_alarms(*, definition: AlarmDefinition, findings: Sequence[Finding]) -> None:
    """Raise an alarm for each finding, unless the object has one or the definition changed."""
    current = AlarmDefinition.objects.filter(pk=definition.pk, enabled=True)
    if not current.filter(version=definition.version).exists():
        return
    ids = [finding.subject.id for finding in findings]
    known = Alarm.objects.open().filter(definition=definition, object_id__in=ids)
    has_alarm = set(known.values_list("object_id", flat=True))
    run_each_in_savepoint(
        f"alarms: raise of {definition.name}",
        [finding for finding in findings if finding.subject.id not in has_alarm],
        partial(add_alarm, definition),
        lambda finding: finding.subject.name,
    )


def add_alarm(definition: AlarmDefinition, finding: Finding) -> None:
    subject = finding.subject
    alarm = insert(
        Alarm(
            definition=definition,
            name=definition.name,
            severity=definition.severity,
            object_kind=definition.object_kind,
            object_id=subject.id,
            object_name=subject.name[:200],
            path=subject.path,
            node_id=subject.node_id,
            pool_id=subject.pool_id,
            project_id=subject.project_id,
            message=finding.message[:500],
        )
    )
    entry = note(alarm, "raised", SYSTEM, finding.message)
    start_actions(definition, alarm, entry)


@write_transaction
def clear(*, alarm_ids: Iterable[UUID], reason: str) -> None:
    """Clear those of the alarms that are open."""
    rows = Alarm.objects.open().filter(pk__in=list(alarm_ids)).select_related("definition")

    def clear_one(alarm: Alarm) -> None:
        set_state(alarm, AlarmState.CLEARED, cleared_at=timezone.now())
        entry = note(alarm, "cleared", SYSTEM, reason)
        if alarm.definition is not None:
            start_actions(alarm.definition, alarm, entry)

    run_each_in_savepoint("alarms: clearing", rows, clear_one, lambda a: a.name)


def set_state(alarm: Alarm, state: AlarmState, **values: datetime | str) -> None:
    changes = {"state": state, **values}
    Alarm.objects.filter(pk=alarm.pk).update(version=F("version") + 1, **changes)
    alarm.version += 1
    for name, value in changes.items():
        setattr(alarm, name, value)


def note(alarm: Alarm, kind: str, actor: str, message: str) -> AlarmEntry:
    """Add a step to the history of an alarm, and the event of it."""
    text = message[:500]
    entry = insert(AlarmEntry(alarm=alarm, kind=kind, actor=actor, message=text))
    emit(
        f"alarm.{kind}",
        path=alarm.path,
        object_id=alarm.pk,
        project_id=alarm.project_id,
        actor=actor,
        message=f"{alarm.name} ({alarm.object_name}): {text}",
        severity=alarm.severity,
        alarm=alarm.name,
        object=alarm.object_name,
    )
    return entry
