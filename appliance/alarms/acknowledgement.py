"""Acknowledge an alarm: who may do it, and when."""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from appliance.accounts.actions import Action, by_row, raise_refusal, register_kind
from appliance.accounts.authorization import denied
from appliance.accounts.models import User
from appliance.accounts.permissions import can, can_at
from appliance.alarms.lifecycle import note, set_state
from appliance.alarms.models import Alarm, AlarmState
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed
from appliance.db.writer import write_transaction

PRIVILEGE = "alarms.acknowledge"


@write_transaction
def acknowledge(*, alarm_id: UUID, text: str, actor: User) -> Alarm:
    """Mark an alarm as known; it stays until its condition ends.

    Another acknowledgement of an acknowledged alarm adds its text to the history. Raises
    ApplianceError DENIED without the privilege there, CONFLICT for a cleared alarm.
    """
    alarm = Alarm.objects.select_related("node").get(pk=alarm_id)
    raise_refusal(acknowledgement_refusal(actor, alarm))
    before = values_of(alarm)
    name = actor.username
    set_state(alarm, AlarmState.ACKNOWLEDGED, acknowledged_at=timezone.now(), acknowledged_by=name)
    note(alarm, "acknowledged", name, text or "Acknowledged.")
    record_changed(alarm, before)
    return alarm


def acknowledgement_refusal(user: User, alarm: Alarm) -> ApplianceError | None:
    return place_refusal(user, alarm) or cleared_refusal(alarm)


def place_refusal(user: User, alarm: Alarm) -> ApplianceError | None:
    """Return the error without the privilege in the project or at the place. Reads the node."""
    if can(user, PRIVILEGE, alarm.project_id) or can_at(user, PRIVILEGE, alarm.places()):
        return None
    return denied(PRIVILEGE)


def cleared_refusal(alarm: Alarm) -> ApplianceError | None:
    if alarm.cleared_at is None:
        return None
    return ApplianceError(
        Code.CONFLICT, f"Alarm {alarm.name} of {alarm.object_name} is cleared already."
    )


ALARMS = register_kind("alarms", lambda user: Alarm.objects.visible_to(user).select_related("node"))
ACKNOWLEDGE = ALARMS.add(
    Action("acknowledge", PRIVILEGE, by_row(acknowledgement_refusal), Alarm.places)
)
