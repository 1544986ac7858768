"""The evaluator: compares what conditions find with the alarms that are open.

An alarm is raised when its condition has held for `raise_after_seconds`, and cleared when it has
not held for `clear_after_seconds`. Only objects between the two are kept in memory.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from appliance.alarms.findings import Finding, Findings, described
from appliance.alarms.lifecycle import clear, raise_alarms
from appliance.alarms.metric_findings import NoSamplesError, find_metric, find_xid
from appliance.alarms.models import Alarm, AlarmDefinition, Condition
from appliance.alarms.state_findings import find_states
from appliance.alarms.time_findings import find_certificates, find_events, find_idle, find_waits

log = logging.getLogger(__name__)

BATCH = 20
"""Alarms of one transaction: the writer thread is held for some milliseconds."""
MAX_CHANGES = 500
"""Alarms that one evaluation raises or clears for a definition; the next one does the rest."""
T = TypeVar("T")
Times = dict[UUID, dict[UUID, float]]
"""Seconds of the monotonic clock by definition and object."""


def complete(
    find: Callable[[AlarmDefinition], Mapping[UUID, Finding]],
) -> Callable[[AlarmDefinition], Findings]:
    return lambda definition: described(find(definition))


FIND: Mapping[Condition, Callable[[AlarmDefinition], Findings]] = {
    Condition.STATE: complete(find_states),
    Condition.METRIC: find_metric,
    Condition.EVENT: complete(find_events),
    Condition.XID: find_xid,
    Condition.CERTIFICATE_AGE: complete(find_certificates),
    Condition.QUEUE_WAIT: complete(find_waits),
    Condition.IDLE_HELD: complete(find_idle),
}


class Evaluator:
    """Evaluates all definitions. One thread calls it at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._holds_since: Times = {}
        """The time from which the condition of an object without an alarm holds."""
        self._ended_at: Times = {}
        """The time from which the condition of an object with an alarm does not hold."""

    def evaluate(self) -> None:
        """Raise and clear alarms. A definition that fails leaves the others alone."""
        definitions = list(AlarmDefinition.objects.filter(enabled=True))
        opened = open_alarms(definitions)
        for definition in definitions:
            try:
                found = FIND[Condition(definition.condition)](definition)
                self._apply(definition, found, opened[definition.pk])
            except NoSamplesError:
                log.warning("alarms: no samples, %s stays as it is", definition.name)
            except Exception:
                log.exception("alarms: definition %s could not be evaluated", definition.name)
        for times in (self._holds_since, self._ended_at):
            for definition_id in times.keys() - opened.keys():
                del times[definition_id]

    def _apply(
        self, definition: AlarmDefinition, found: Findings, alarms: Mapping[UUID, UUID]
    ) -> None:
        """Raise and clear what is due. `alarms` are the open ones of the definition by object."""
        now = self._clock()
        holds = [o for o, raises in found.raises.items() if raises and o not in alarms]
        due = past(self._holds_since, definition.pk, holds, now, definition.raise_after_seconds)
        for ids in batches(due[:MAX_CHANGES]):
            raise_alarms(definition=definition, findings=list(found.describe(ids)))
        ended = [o for o in alarms if o not in found.raises]
        over = past(self._ended_at, definition.pk, ended, now, definition.clear_after_seconds)
        for ids in batches(over[:MAX_CHANGES]):
            clear(
                alarm_ids=[alarms[object_id] for object_id in ids],
                reason="The condition no longer holds.",
            )


def past(
    times: Times, definition_id: UUID, objects: Iterable[UUID], now: float, seconds: float
) -> list[UUID]:
    """Return those of the objects that have been given to each call for this many seconds.

    `times` keeps when each of the objects was given first, and forgets other objects.
    """
    before = times.get(definition_id, {})
    since = times[definition_id] = {o: before.get(o, now) for o in objects}
    return [o for o, first in since.items() if now - first >= seconds]


def open_alarms(definitions: Iterable[AlarmDefinition]) -> dict[UUID, dict[UUID, UUID]]:
    """Return open alarms by definition and object; clear those of other definitions."""
    opened: dict[UUID, dict[UUID, UUID]] = {d.pk: {} for d in definitions}
    left: list[UUID] = []
    rows = Alarm.objects.open().values_list("definition_id", "object_id", "pk")
    for definition_id, object_id, alarm_id in rows:
        if definition_id in opened:
            opened[definition_id][object_id] = alarm_id
        else:
            left.append(alarm_id)
    for some in batches(left[:MAX_CHANGES]):
        clear(alarm_ids=some, reason="The definition is disabled or deleted.")
    return opened


def batches(items: list[T]) -> Iterable[list[T]]:
    return (items[at : at + BATCH] for at in range(0, len(items), BATCH))
