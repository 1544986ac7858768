"""Start the actions of a definition: mails as notifications, others as rows to be done."""

from __future__ import annotations

from typing import Any

from appliance.accounts.models import User
from appliance.alarms.models import ActionKind, Alarm, AlarmAction, AlarmDefinition, AlarmEntry
from appliance.api.encoding import format_timestamp
from appliance.notifications.services import store_alarm_mails

FOOTER = """
  busbar alarm show {id}

You get this message because the alarm definition "{name}" names you.
"""


def start_actions(definition: AlarmDefinition, alarm: Alarm, entry: AlarmEntry) -> None:
    """Start the actions for a raised or cleared alarm, in the transaction that changes it."""
    content = content_of(alarm, entry)
    if definition.mail_users:
        mail(definition, alarm, entry)
    if definition.webhook_url:
        add(definition, alarm, ActionKind.WEBHOOK, content)
    if definition.script:
        add(definition, alarm, ActionKind.SCRIPT, content)
    if definition.enters_maintenance and entry.kind == "raised":
        add(definition, alarm, ActionKind.MAINTENANCE, content)


def add(
    definition: AlarmDefinition, alarm: Alarm, kind: ActionKind, content: dict[str, Any]
) -> None:
    AlarmAction.objects.create(definition=definition, alarm=alarm, kind=kind, content=content)


def mail(definition: AlarmDefinition, alarm: Alarm, entry: AlarmEntry) -> None:
    users = User.objects.filter(username__in=definition.mail_users, is_active=True)
    verb = "cleared: " if entry.kind == "cleared" else ""
    store_alarm_mails(
        users=list(users.exclude(email="")),
        entry_id=entry.pk,
        subject=f"Busbar {alarm.severity}: {verb}{alarm.name} ({alarm.object_name})",
        text=f"{entry.message}\n" + FOOTER.format(id=alarm.pk, name=definition.name),
    )


def content_of(alarm: Alarm, entry: AlarmEntry) -> dict[str, Any]:
    """Return the message for a webhook or script. Each delivery of it has the same `id`."""
    return {
        "id": str(entry.pk),
        "event": entry.kind,
        "at": format_timestamp(entry.created_at),
        "alarm": {
            "id": str(alarm.pk),
            "name": alarm.name,
            "severity": alarm.severity,
            "message": entry.message,
            "object_kind": alarm.object_kind,
            "object_id": str(alarm.object_id),
            "object_name": alarm.object_name,
            "path": alarm.path,
            "raised_at": format_timestamp(alarm.created_at),
        },
    }
