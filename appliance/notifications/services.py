"""Changes of what users want to be told, and mails about alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from appliance.accounts.models import User
from appliance.audit.fields import values_of
from appliance.audit.records import record_changed
from appliance.configuration import mail
from appliance.db.writer import write_transaction
from appliance.notifications.models import Notification, NotificationChoice, NotificationKind
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import NotificationSettings


@write_transaction
def choose(*, user: User, choices: Mapping[str, bool]) -> None:
    """Store which kinds of mails the user wants. Kinds that are not named stay as they are."""
    row = NotificationChoice.objects.filter(user=user).first() or NotificationChoice(user=user)
    before = values_of(row)
    off = {kind for kind, wanted in choices.items() if not wanted}
    row.unwanted = sorted((set(row.unwanted) - choices.keys()) | off)
    row.save()
    record_changed(row, before)


def store_alarm_mails(*, users: Sequence[User], entry_id: UUID, subject: str, text: str) -> int:
    """Store a mail for each user who wants mails about alarms, in the caller's transaction.

    Return their number. Without a mail service there is none: old alarms are no news later.
    """
    if not mail.is_set_up() or not current(NotificationSettings).alarm:
        return 0
    choices = NotificationChoice.objects.filter(user__in=users)
    off = {choice.user_id for choice in choices if NotificationKind.ALARM in choice.unwanted}
    rows = [
        Notification(
            user=user,
            alarm_entry_id=entry_id,
            kind=NotificationKind.ALARM,
            subject=" ".join(subject.split())[:200],
            text=text,
        )
        for user in users
        if user.pk not in off
    ]
    return len(Notification.objects.bulk_create(rows))
