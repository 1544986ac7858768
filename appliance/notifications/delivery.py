"""Sending of the stored mails, with further attempts after failures."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db.models import F, QuerySet
from django.utils import timezone

from appliance.configuration.mail import MailError, is_set_up, send_mail
from appliance.db.writer import write_transaction
from appliance.notifications.models import Notification
from appliance.runtime.each import run_each

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 8
BATCH = 20
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 60.0, 3600.0
CLAIM_SECONDS = 300.0
"""Time for which no other appliance tries to send a mail that this one is sending."""


def deliver() -> int:
    """Send the mails that are due. Blocks; call it on a thread of its own. Return their number."""
    if not is_set_up():
        return 0
    due = pending().filter(next_attempt_at__lte=timezone.now())
    rows = list(due.select_related("user").order_by("next_attempt_at")[:BATCH])
    run_each("notifications: mail", rows, send_if_claimed, lambda row: row.pk)
    return len(rows)


def send_if_claimed(row: Notification) -> None:
    if claim(row):
        attempt(row)


def pending() -> QuerySet[Notification]:
    """Return the mails that are still to be sent."""
    return Notification.objects.filter(sent_at=None, attempts__lt=MAX_ATTEMPTS)


def claim(row: Notification) -> bool:
    """Count an attempt. Return False if another appliance was first."""
    return count_attempt(row=row)


@write_transaction
def count_attempt(*, row: Notification) -> bool:
    rows = Notification.objects.filter(pk=row.pk, attempts=row.attempts, sent_at=None)
    until = timezone.now() + timedelta(seconds=CLAIM_SECONDS)
    return bool(rows.update(attempts=F("attempts") + 1, next_attempt_at=until))


def attempt(row: Notification) -> None:
    try:
        send_mail(to=row.recipient or row.user.email, subject=row.subject, text=row.text)
    except MailError as error:
        failed = str(error)[:300]
        log.warning("notifications: mail not sent, attempt %d: %s", row.attempts + 1, failed)
        finish(row, sent_at=None, error=failed)
    except Exception as error:
        finish(row, sent_at=None, error=f"{type(error).__name__}; see the log of the appliance")
        raise
    else:
        finish(row, sent_at=timezone.now(), error="")


def finish(row: Notification, *, sent_at: datetime | None, error: str) -> None:
    pause = min(FIRST_PAUSE_SECONDS * 2**row.attempts, LONGEST_PAUSE_SECONDS)
    again = timezone.now() + timedelta(seconds=pause)
    rows = Notification.objects.filter(pk=row.pk)
    write_transaction(lambda: rows.update(sent_at=sent_at, error=error, next_attempt_at=again))()
