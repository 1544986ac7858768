"""Create, change and delete alarm definitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from appliance.accounts.actions import (
    Action,
    by_row,
    find_in_inventory,
    raise_refusal,
    register_kind,
)
from appliance.accounts.authorization import denied
from appliance.accounts.models import User
from appliance.accounts.named_rows import lock
from appliance.accounts.permissions import can_somewhere, has_scope
from appliance.activity.events import emit
from appliance.alarms import lifecycle
from appliance.alarms.conditions import invalid, require_valid
from appliance.alarms.models import CONDITION_FIELDS, PLACES, Alarm, AlarmDefinition
from appliance.alarms.scripts import NAME
from appliance.alarms.webhook import parse_url
from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed, record_created, record_deleted
from appliance.db.writer import write_transaction
from appliance.inventory.actions import MANAGE
from appliance.runtime.sealing import Purpose, seal

RULES = {*CONDITION_FIELDS, *PLACES}
"""Fields that decide for which objects the condition holds."""


@write_transaction
def create_definition(*, values: Mapping[str, Any], actor: User) -> AlarmDefinition:
    """Create a definition. Raises ApplianceError CONFLICT, INVALID or NOT_FOUND."""
    row = AlarmDefinition(changed_by=actor)
    set_values(row, values)
    raise_refusal(scope_refusal(actor, row))
    row.save()
    emit_event(row, "created", actor)
    record_created(row)
    return row


@write_transaction
def update_definition(
    *, definition_id: UUID, values: Mapping[str, Any], actor: User
) -> AlarmDefinition:
    """Change fields. Alarms end if another condition or place decides about them.

    Actions on the inventory are done with the privileges of the actor from now on. Raises
    ApplianceError CONFLICT, INVALID or NOT_FOUND.
    """
    row = lock(AlarmDefinition, definition_id)
    before = values_of(row)
    if row.is_builtin and values.get("name", row.name) != row.name:
        raise ApplianceError(
            Code.CONFLICT, f"Alarm definition {row.name} came with the product and keeps its name."
        )
    set_values(row, values)
    raise_refusal(scope_refusal(actor, row))
    row.changed_by = actor
    row.version += 1
    row.save()
    record_changed(row, before)
    emit_event(row, "changed", actor)
    if not row.enabled or RULES & values.keys():
        clear_alarms(row, "The definition was changed.")
    return row


@write_transaction
def delete_definition(*, definition_id: UUID, actor: User) -> None:
    """Delete a definition and clear its alarms. Those of the product can only be disabled.

    Raises ApplianceError CONFLICT for a definition of the product.
    """
    row = lock(AlarmDefinition, definition_id)
    raise_refusal(deletion_refusal(actor, row))
    clear_alarms(row, "The definition was deleted.")
    emit_event(row, "deleted", actor)
    record_deleted(row)
    row.delete()


def deletion_refusal(actor: User, row: AlarmDefinition) -> ApplianceError | None:
    if not row.is_builtin:
        return None
    return ApplianceError(
        Code.CONFLICT,
        f"Alarm definition {row.name} came with the product. Disable it: "
        f"busbar alarm-definition set '{row.name}' --disable",
    )


def clear_alarms(row: AlarmDefinition, reason: str) -> None:
    ids = Alarm.objects.open().filter(definition=row).values_list("pk", flat=True)
    lifecycle.clear(alarm_ids=list(ids), reason=reason)


def set_values(row: AlarmDefinition, values: Mapping[str, Any]) -> None:
    """Set the fields of a request. Raises ApplianceError for values that do not fit together."""
    for name, value in values.items():
        if name in PLACES:
            setattr(row, name, find_in_inventory(name, value) if value else None)
        elif name == "webhook_secret":
            row.webhook_secret = sealed(row, value) if value else ""
        else:
            setattr(row, name, value)
    if "webhook_url" in values and "webhook_secret" not in values:
        row.webhook_secret = ""  # another server must not get requests signed with it
    if sum(getattr(row, place) is not None for place in PLACES) > 1:
        raise invalid(f"Set at most one of {', '.join(PLACES)}.")
    require_valid(row)
    require_actions(row)
    if AlarmDefinition.objects.filter(name=row.name).exclude(pk=row.pk).exists():
        raise ApplianceError(
            Code.CONFLICT, f"An alarm definition named {row.name} exists. Choose another name."
        )


def sealed(row: AlarmDefinition, secret: str) -> str:
    return seal(secret.encode(), Purpose.WEBHOOK, row.pk.bytes)


def require_actions(row: AlarmDefinition) -> None:
    if row.webhook_url:
        try:
            parse_url(row.webhook_url)
        except ValueError as error:
            raise invalid(str(error)) from error
    if row.script and not NAME.fullmatch(row.script):
        raise invalid("script must be the name of a file, without a folder.")
    known = set(User.objects.filter(username__in=row.mail_users).values_list("username", flat=True))
    if unknown := [name for name in row.mail_users if name not in known]:
        raise ApplianceError(Code.NOT_FOUND, f"User {unknown[0]} of mail_users not found.")


def scope_refusal(actor: User, row: AlarmDefinition) -> ApplianceError | None:
    """Return the error of a token that may not do itself what the definition does for its user."""
    if row.enters_maintenance and not has_scope(actor, MANAGE):
        return denied(MANAGE)
    return None


def emit_event(row: AlarmDefinition, verb: str, actor: User) -> None:
    emit(
        f"alarm_definition.{verb}",
        path=row.path,
        object_id=row.pk,
        actor=actor.username,
        message=f"Alarm definition {row.name} {verb}.",
    )


def visible_definitions(user: User) -> QuerySet[AlarmDefinition]:
    rows = AlarmDefinition.objects.all()
    return rows if can_somewhere(user, MANAGE_ALARMS) else rows.none()


MANAGE_ALARMS = "alarms.manage"
DEFINITIONS = register_kind("alarm-definitions", visible_definitions)
UPDATE = DEFINITIONS.add(Action("update", MANAGE_ALARMS, by_row(scope_refusal)))
DELETE = DEFINITIONS.add(Action("delete", MANAGE_ALARMS, by_row(deletion_refusal)))
