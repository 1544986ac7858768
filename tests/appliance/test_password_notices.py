"""The mail that tells a user of a new password: who gets it, when, and what it says."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.tokens import default_token_generator
from django.core.management import call_command
from rest_framework.test import APIClient

from appliance.accounts.models import User
from appliance.configuration import storage
from appliance.notifications import delivery
from appliance.notifications.models import Notification
from appliance.runtime import live_settings
from appliance.runtime.setting_sections import MailSettings
from tests.appliance.conftest import Cast, body
from tests.appliance.smtp_server import Inbox, smtp_server
from tests.ports import port

Clients = Callable[[User | None], Any]
pytestmark = pytest.mark.django_db
OLD, NEW = "the one until now", "a new one of my own"


@pytest.fixture
def inbox(tmp_path: Path, cast: Cast) -> Iterator[Inbox]:
    User.objects.filter(pk=cast.alice.pk).update(
        email="alice@example.org", password=make_password(OLD)
    )
    with smtp_server(tmp_path, port(95), "tls") as (inbox, mail):
        live_settings.replace({MailSettings: MailSettings(**mail)})
        yield inbox


def text_of_mail(inbox: Inbox) -> str:
    """Send what is stored, and return the only mail."""
    delivery.deliver()
    (message,) = inbox.messages
    assert inbox.recipients == ["alice@example.org"]
    assert message["Subject"] == "Busbar: the password of alice was changed"
    return str(message.get_content())


def change_own() -> Any:
    fields = {"username": "alice", "password": OLD, "new_password": NEW}
    return APIClient().post("/api/v1/login", fields, format="json", REMOTE_ADDR="192.0.2.7")


def test_mail_after_an_own_change_names_time_and_address(inbox: Inbox) -> None:
    assert change_own().status_code == 200
    text = text_of_mail(inbox)
    assert "from the address 192.0.2.7" in text and "one-time" not in text
    at = datetime.strptime(text.partition(" UTC")[0][-19:], "%Y-%m-%d %H:%M:%S")
    assert abs(datetime.now(timezone.utc).replace(tzinfo=None) - at) < timedelta(minutes=1)
    assert OLD not in text and NEW not in text


def test_mail_after_a_reset_by_an_administrator_has_no_password(
    inbox: Inbox, cast: Cast, client_of: Clients
) -> None:
    path = f"/api/v1/users/{cast.alice.pk}/reset-password"
    response = client_of(cast.admin).post(path, REMOTE_ADDR="192.0.2.8")
    text = text_of_mail(inbox)
    assert "from the address 192.0.2.8" in text and "one-time password of an admin" in text
    assert body(response)["one_time_password"] not in text and "tell an administrator" in text


def test_mail_after_a_forgotten_password(inbox: Inbox, cast: Cast) -> None:
    code = default_token_generator.make_token(User.objects.get(pk=cast.alice.pk))
    fields = {"username": "alice", "code": code, "new_password": NEW}
    path = "/api/v1/password-resets/completion"
    assert APIClient().post(path, fields, format="json").status_code == 204
    text = text_of_mail(inbox)
    assert "from the address 127.0.0.1" in text and code not in text and NEW not in text


def test_mail_after_a_reset_on_the_machine(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    in_force = live_settings.current(MailSettings)
    live_settings.replace({})  # as in the process of the command, until it loads them
    monkeypatch.setattr(storage, "load", lambda: live_settings.replace({MailSettings: in_force}))
    printed = io.StringIO()
    call_command("reset_password", "alice", stdout=printed)
    text = text_of_mail(inbox)
    assert "on the machine of the appliance" in text and printed.getvalue().strip() not in text


def test_user_without_an_address_gets_no_mail(inbox: Inbox, cast: Cast) -> None:
    User.objects.filter(pk=cast.alice.pk).update(email="")
    assert change_own().status_code == 200
    assert not Notification.objects.exists()


def test_nothing_is_stored_without_a_mail_service(inbox: Inbox) -> None:
    live_settings.replace({})
    assert change_own().status_code == 200
    assert not Notification.objects.exists()


def test_password_that_is_refused_causes_no_mail(inbox: Inbox) -> None:
    fields = {"username": "alice", "password": "wrong", "new_password": NEW}
    assert APIClient().post("/api/v1/login", fields, format="json").status_code == 401
    assert not Notification.objects.exists()


def test_mail_goes_to_the_address_at_the_time_of_the_change(inbox: Inbox, cast: Cast) -> None:
    assert change_own().status_code == 200
    User.objects.filter(pk=cast.alice.pk).update(email="mallory@example.org")
    assert "from the address 192.0.2.7" in text_of_mail(inbox)


def reset(cast: Cast, client_of: Clients, address: str) -> None:
    path = f"/api/v1/users/{cast.alice.pk}/reset-password"
    assert client_of(cast.admin).post(path, REMOTE_ADDR=address).status_code == 200


def test_mail_that_waits_is_replaced_and_keeps_its_place(
    inbox: Inbox, cast: Cast, client_of: Clients
) -> None:
    reset(cast, client_of, "192.0.2.8")
    due = Notification.objects.get().next_attempt_at
    reset(cast, client_of, "192.0.2.9")
    assert Notification.objects.get().next_attempt_at == due
    assert "from the address 192.0.2.9" in text_of_mail(inbox)


def test_mail_that_has_failed_or_was_sent_delays_no_later_one(
    inbox: Inbox, cast: Cast, client_of: Clients
) -> None:
    reset(cast, client_of, "192.0.2.8")
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    Notification.objects.update(attempts=5, next_attempt_at=later)
    reset(cast, client_of, "192.0.2.9")
    assert "from the address 192.0.2.9" in text_of_mail(inbox)
    reset(cast, client_of, "192.0.2.10")
    delivery.deliver()
    assert len(inbox.messages) == 2 == Notification.objects.exclude(sent_at=None).count()


def test_change_after_a_new_address_leaves_the_mail_to_the_old_one(
    inbox: Inbox, cast: Cast, client_of: Clients
) -> None:
    reset(cast, client_of, "192.0.2.8")
    User.objects.filter(pk=cast.alice.pk).update(email="mallory@example.org")
    reset(cast, client_of, "192.0.2.9")
    delivery.deliver()
    assert inbox.recipients == ["alice@example.org", "mallory@example.org"]
