"""New passwords for people who have forgotten theirs, with a code that is sent to their address.

A request only waits here until the job of the notifications has looked for the account, so neither
the response nor its time tells whether there is one. The code is Django's: a keyed hash of the
account, its password and the time. So no row holds it, and it ends with the first new password.
"""

from __future__ import annotations

import logging
import threading
import time
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator

from appliance.accounts import services
from appliance.accounts.models import User
from appliance.api.errors import ApplianceError, Code
from appliance.audit.records import record
from appliance.configuration.mail import MailError, is_set_up, send_mail
from appliance.configuration.services import register_guard
from appliance.db import origin
from appliance.db.origin import Origin
from appliance.db.writer import write_transaction
from appliance.runtime.each import run_each
from appliance.runtime.setting_sections import MailSettings
from appliance.signin.mail_trust import require_all_privileges

log = logging.getLogger(__name__)

MAX_WAITING = 100
"""Requests that wait for the job. More are dropped: users can repeat theirs."""
BATCH = 20
"""Mails of one run of the job, so that other mails wait for few timeouts of the mail server."""
PAUSE_SECONDS = 300.0
"""Least time between two mails to one account."""
PAGE = "/new-password"
TEXT = """\
A new password of your account {username} was asked for. If it was you, set it here within an
hour:

  {url}

If it was not you, ignore this message. Your password stays valid.
"""

register_guard(MailSettings, require_all_privileges)
_lock = threading.Lock()
_waiting: dict[str, Origin | None] = {}
"""Username to the origin of the request, oldest first."""
_sent_at: dict[UUID, float] = {}
"""Monotonic times of the mails of the last PAUSE_SECONDS."""


def request_reset(*, username: str) -> None:
    """Have a code sent to the account, if it can get one. Does not block.

    Raises ApplianceError CONFLICT if no mail service is set up.
    """
    if not is_set_up():
        raise ApplianceError(
            Code.CONFLICT,
            "This appliance sends no mail. Ask an administrator for a one-time password.",
        )
    with _lock:
        if len(_waiting) < MAX_WAITING:
            _waiting.setdefault(username, origin.current())


def send_waiting() -> None:
    """Send the codes of the oldest requests. Blocks; call it on a thread of its own."""
    mails = 0
    while mails < BATCH and (request := next_request()) is not None:
        username, made_by = request
        user = find(username)
        if user is None or not may_send(user.pk):
            continue
        mails += 1
        with origin.scope(made_by):
            run_each("sign-in: mail with a password code", [user], send, lambda u: u.username)


def next_request() -> tuple[str, Origin | None] | None:
    with _lock:
        for username in _waiting:
            return username, _waiting.pop(username)
    return None


def find(username: str) -> User | None:
    """Return an active account with an address and a password of the appliance, or None."""
    user = User.objects.filter(username=username).first()
    return user if user is not None and has_way(user) else None


def has_way(user: User) -> bool:
    is_kept_here = not user.source and user.has_usable_password()
    return user.is_active and bool(user.email) and is_kept_here


def may_send(user_id: UUID) -> bool:
    now = time.monotonic()
    for other in [pk for pk, at in _sent_at.items() if now - at >= PAUSE_SECONDS]:
        del _sent_at[other]
    if user_id in _sent_at:
        return False
    _sent_at[user_id] = now
    return True


def send(user: User) -> None:
    # The part behind # reaches no server, and so no log.
    fields = urlencode({"user": user.username, "code": default_token_generator.make_token(user)})
    url = f"{settings.ENVIRONMENT.console_url}{PAGE}#{fields}"
    subject = f"Busbar: a new password for {user.username}"
    try:
        send_mail(to=user.email, subject=subject, text=TEXT.format(username=user.username, url=url))
    except MailError as error:
        _sent_at.pop(user.pk, None)  # the user may try again at once
        log.warning("sign-in: mail with a password code not sent: %s", error)
    else:
        record_sent(user=user)


@write_transaction
def record_sent(*, user: User) -> None:
    record(user, "password_code_sent", {}, {"password_code": "sent"})


def complete_reset(*, username: str, code: str, new_password: str) -> None:
    """Set the password, and end all tokens of the account. Blocks while it is hashed.

    Second factors stay, and the next sign-in asks for them. Raises ApplianceError UNAUTHENTICATED
    for a code that is wrong or over an hour old, and ValidationError for a weak password.
    """
    user = find(username)
    # Another account is checked in place of one that does not exist, so both take equally long.
    if not default_token_generator.check_token(user or User(), code) or user is None:
        raise wrong_code()
    origin.act_as(user.username)
    validate_password(new_password, user)
    use_code(user_id=user.pk, code=code, encoded=make_password(new_password))
    services.forget_initial_password(user)


@write_transaction
def use_code(*, user_id: UUID, code: str, encoded: str) -> None:
    """Store the password if the code is still valid: of requests at once only one succeeds."""
    user = User.objects.select_for_update().filter(pk=user_id).first()
    if user is None or not has_way(user) or not default_token_generator.check_token(user, code):
        raise wrong_code()
    services.store_password(user=user, encoded=encoded, expires_at=None)


def wrong_code() -> ApplianceError:
    return ApplianceError(
        Code.UNAUTHENTICATED, "The code is not valid, or not any more. Ask for another one."
    )
