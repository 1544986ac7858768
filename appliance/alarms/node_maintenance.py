"""The action that sets the node of an alarm into maintenance."""

from __future__ import annotations

from appliance.accounts.permissions import can_at
from appliance.alarms.action_errors import ActionRefusedError
from appliance.alarms.models import AlarmAction
from appliance.allocations.maintenance import enter_maintenance
from appliance.api.errors import ApplianceError
from appliance.inventory.actions import MANAGE
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import AllocationSettings


def set_into_maintenance(row: AlarmAction) -> None:
    """Drain the node, in the name of the user who last changed the definition.

    They need the privilege at the time of the action. Raises ActionRefusedError without it, and
    if the node is neither ready nor cordoned.
    """
    node, user = row.alarm.node, row.definition.changed_by
    if node is None:
        raise ActionRefusedError("the object has no node")
    if user is None or not user.is_active or not can_at(user, MANAGE, node.places()):
        name = user.username if user else "the author of the definition"
        raise ActionRefusedError(f"{name} may not set node {node.name} into maintenance")
    grace = current(AllocationSettings).preemption_grace_seconds
    try:
        enter_maintenance(node_id=node.pk, grace_seconds=grace, initiator=user)
    except ApplianceError as error:
        raise ActionRefusedError(error.detail.rstrip(".")) from error
