"""Change the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.utils import timezone
from pydantic import ValidationError

from appliance.api.errors import ApplianceError, Code
from appliance.audit.fields import values_of
from appliance.audit.records import record, record_changed
from appliance.configuration.fields import is_secret
from appliance.configuration.mail import MailError, send_mail
from appliance.configuration.models import ROW_ID, StoredSettings
from appliance.configuration.storage import seal_secret, stored
from appliance.db import change_log
from appliance.db.change_log import Topic
from appliance.db.writer import write_transaction
from appliance.runtime.live_settings import SECTIONS, Section

TEST_TEXT = """\
The mail service of this Busbar appliance works. An administrator requested this message to test it.
"""
Changes = Mapping[str, Mapping[str, Any]]
Guard = Callable[[Any, Mapping[str, Any], Mapping[str, Any]], None]
"""Raises ApplianceError if a user may not replace the first stored values by the second ones."""
_guards: dict[str, Guard] = {}


def register_guard(section: type[Section], guard: Guard) -> None:
    """Let a package that depends on a section limit who changes it."""
    _guards[section.section] = guard


def require_usable(changes: Changes) -> None:
    """Raise ApplianceError INVALID for changes that this machine does not permit."""
    for name, values in changes.items():
        try:
            SECTIONS[name].require_usable(values)
        except ValueError as error:
            raise ApplianceError(Code.INVALID, f"{name}.{error}") from None


@write_transaction
def change_settings(*, changes: Changes, actor: object) -> StoredSettings:
    """Store changed settings by section and name, and put them in force. None: the default.

    Raises ApplianceError INVALID for values that contradict each other, and what guards of the
    sections raise.
    """
    row = StoredSettings.objects.select_for_update().filter(pk=ROW_ID).first() or StoredSettings()
    before = values_of(row)
    row.values, row.secrets = dict(row.values), dict(row.secrets)
    for name, values in changes.items():
        old = row.values.get(name, {})
        change_section(row, SECTIONS[name], values)
        if guard := _guards.get(name):
            guard(actor, old, row.values[name])
    row.version, row.changed_at = row.version + 1, timezone.now()
    row.save()
    record_changed(row, before)
    change_log.record(Topic.SETTINGS)
    return row


def send_test_mail(*, to: str) -> None:
    """Send a message that says that the mail service works. Blocks while the server replies.

    Raises ApplianceError MAIL_FAILED with the reply of the server.
    """
    try:
        send_mail(to=to, subject="Busbar: test of the mail service", text=TEST_TEXT)
    except MailError as error:
        raise ApplianceError(Code.MAIL_FAILED, f"No mail was sent: {error}.") from error
    record_test_mail(to=to)


@write_transaction
def record_test_mail(*, to: str) -> None:
    record(stored(), "mail_tested", {}, {"to": to})


def change_section(row: StoredSettings, section: type[Section], changes: Mapping[str, Any]) -> None:
    name = section.section
    values, secrets = dict(row.values.get(name, {})), dict(row.secrets.get(name, {}))
    for key, value in changes.items():
        secret = is_secret(section.model_fields[key])
        target = secrets if secret else values
        if value is None or (secret and not value):
            target.pop(key, None)
        else:
            target[key] = seal_secret(section, key, value) if secret else value
    kept = [secret for secret in secrets if secret not in changes]
    require_secrets_again(section, row.values.get(name, {}), values, kept)
    check(section, {**values, **{k: "x" for k in secrets}})
    row.values[name], row.secrets[name] = values, secrets


def require_secrets_again(
    section: type[Section], before: Mapping[str, Any], after: Mapping[str, Any], kept: Iterable[str]
) -> None:
    """Raise ApplianceError INVALID if one of the kept secrets would go to another receiver.

    Who may change settings cannot read a secret, and must not get it by naming a server.
    """
    for secret in kept:
        for name in section.receivers.get(secret, ()):
            if effective(section, before, name) != effective(section, after, name):
                place = f"{section.section}.{secret}"
                raise ApplianceError(
                    Code.INVALID,
                    f"{section.section}.{name}: the stored {place} is not sent to another server. "
                    f"Give {place} in the same change, or reset it first.",
                )


def effective(section: type[Section], values: Mapping[str, Any], name: str) -> Any:
    default = section.model_fields[name].get_default(call_default_factory=True)
    return values.get(name, default)


def check(section: type[Section], values: Mapping[str, Any]) -> None:
    """Raise ApplianceError INVALID for values that the section as a whole does not permit."""
    try:
        section(**values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in (section.section, *first["loc"]))
        reason = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise ApplianceError(Code.INVALID, f"{place}: {reason}.") from None
