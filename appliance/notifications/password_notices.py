"""Mails to users whose password was changed, so that they notice a change by another person."""

from __future__ import annotations

from datetime import datetime
from typing import cast

from django.conf import settings
from django.db.models import Min
from django.utils import timezone

from appliance.accounts.models import User
from appliance.accounts.services import observe_passwords
from appliance.configuration import mail
from appliance.db import origin
from appliance.notifications import delivery
from appliance.notifications.models import PASSWORD, Notification

TEXT = """\
The password of your account {username} was changed at {time} UTC, {place}.
{meaning}
All sign-ins and tokens of the account have ended.

If you did not expect this, tell an administrator of the appliance at once. You can ask for another
password, which ends all sign-ins again, on the page where you sign in:

  {url}
"""
OWN = "The new password is in use now."
ONE_TIME = """\
It is a one-time password of an administrator, who gives it to you. It is valid for 24 hours, and
the next sign-in asks for a password of your own."""


def store_notice(user: User) -> None:
    """Store a mail for a user whose password has changed, in the caller's transaction.

    It goes to the present address, also if that is changed before the mail is sent. It replaces
    one of the user that still waits for this address, and takes its place in the queue.
    Without an address, a password of the appliance or a mail service there is none.
    """
    if user.email and user.has_usable_password() and mail.is_set_up():
        Notification.objects.create(
            user=user,
            kind=PASSWORD,
            recipient=user.email,
            subject=f"Busbar: the password of {user.username} was changed"[:200],
            text=text_for(user),
            next_attempt_at=remove_pending(user) or timezone.now(),
        )


def remove_pending(user: User) -> datetime | None:
    """Delete the notices that wait for the user's address. Return since when one was due, or None.

    A notice for another address stays: who had that address learns of the change.
    """
    rows = delivery.pending().filter(user=user, kind=PASSWORD, recipient=user.email)
    due = rows.filter(next_attempt_at__lte=timezone.now())
    since = due.aggregate(first=Min("next_attempt_at"))["first"]
    rows.delete()
    return cast("datetime | None", since)


def text_for(user: User) -> str:
    made_by = origin.current()
    address = made_by.address if made_by else ""
    return TEXT.format(
        username=user.username,
        time=f"{timezone.now():%Y-%m-%d %H:%M:%S}",
        place=f"from the address {address}" if address else "on the machine of the appliance",
        meaning=ONE_TIME if user.must_change_password else OWN,
        url=settings.ENVIRONMENT.console_url,
    )


observe_passwords(store_notice)
