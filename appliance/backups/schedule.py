"""Functions that tell whether a backup is due, and whether the last good one is old."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from appliance.backups.age_keys import RECIPIENTS
from appliance.backups.models import Backup
from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import BackupSettings

RETRY = timedelta(hours=1)
"""Time from a failed attempt to the next one."""


def last_good() -> datetime | None:
    newest = Backup.objects.order_by("-created_at").values_list("created_at", flat=True).first()
    return newest if isinstance(newest, datetime) else None


def is_due(now: datetime, last_attempt: datetime | None) -> bool:
    """Return whether a backup must be made by itself. Reads the database."""
    values = current(BackupSettings)
    if not values.destination or not values.interval_hours:
        return False
    if last_attempt is not None and now < last_attempt + RETRY:
        return False
    last = last_good()
    return last is None or now >= last + timedelta(hours=values.interval_hours)


def old_backup(now: datetime) -> str:
    """Return what is wrong with the age of the last good backup, or an empty text.

    An appliance without a destination and without a key makes no backups, which is no problem.
    """
    values = current(BackupSettings)
    if not values.destination and not (settings.DATA_DIR / RECIPIENTS).exists():
        return ""
    last = last_good()
    if last is None:
        return "There is no good backup yet."
    if now - last < timedelta(hours=values.old_after_hours):
        return ""
    return f"The last good backup is of {timezone.localtime(last):%Y-%m-%d %H:%M} UTC."
