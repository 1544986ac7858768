"""A forgotten password: the mail, its code, and what it tells strangers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.contrib.auth.hashers import check_password, make_password
from django.utils import timezone
from rest_framework.test import APIClient

from appliance.accounts.models import CustomRole, RoleBinding, Source, User
from appliance.accounts.services import token_create
from appliance.audit.models import AuditRecord
from appliance.runtime import live_settings
from appliance.runtime.setting_sections import MailSettings
from appliance.signin import password_resets, second_factors
from tests.appliance.conftest import Cast, body
from tests.appliance.smtp_server import Inbox, smtp_server
from tests.ports import port

pytestmark = pytest.mark.django_db
OLD, NEW = "the forgotten one", "a new one of my own"


@pytest.fixture
def inbox(tmp_path: Path, cast: Cast) -> Iterator[Inbox]:
    User.objects.filter(username="alice").update(
        email="alice@example.org", password=make_password(OLD)
    )
    password_resets._waiting.clear()
    password_resets._sent_at.clear()
    with smtp_server(tmp_path, port(92), "tls") as (inbox, mail):
        live_settings.replace({MailSettings: MailSettings(**mail)})
        yield inbox


def post(path: str, **content: str) -> Any:
    return APIClient().post(f"/api/v1/password-resets{path}", content, format="json")


def ask(username: str) -> Any:
    response = post("", username=username)
    password_resets.send_waiting()
    return response


def link_of(inbox: Inbox) -> dict[str, str]:
    found = re.search(r"https://\S+/new-password#(\S+)", inbox.messages[-1].get_content())
    assert found is not None
    fields = parse_qs(found[1])
    return {"username": fields["user"][0], "code": fields["code"][0]}


def has_password(username: str, password: str) -> bool:
    return check_password(password, User.objects.get(username=username).password)


def test_code_of_the_mail_sets_a_password_once_and_ends_the_tokens(
    inbox: Inbox, cast: Cast
) -> None:
    _, token = token_create(user=User.objects.get(username="alice"), name="old")
    client = APIClient(headers={"Authorization": f"Bearer {token}"})
    assert ask("alice").status_code == 202 and inbox.recipients == ["alice@example.org"]
    assert has_password("alice", OLD) and client.get("/api/v1/me").status_code == 200
    link = link_of(inbox)
    assert post("/completion", **link, new_password=NEW).status_code == 204
    assert has_password("alice", NEW) and client.get("/api/v1/me").status_code == 401
    assert post("/completion", **link, new_password="another one again").status_code == 401
    assert has_password("alice", NEW)
    record = AuditRecord.objects.get(after__password="changed")
    assert (record.actor, record.object_name) == ("alice", "alice")


def test_audit_names_the_address_that_asked_and_has_no_code(inbox: Inbox) -> None:
    ask("alice")
    ask("absent")
    link = link_of(inbox)
    post("/completion", **link, new_password=NEW)
    sent = AuditRecord.objects.get(after__password_code="sent")
    assert (sent.object_name, sent.address) == ("alice", "127.0.0.1")
    assert sent.action == "password_resets_create" and sent.actor != "alice"
    texts = [str(vars(record)) for record in AuditRecord.objects.all()]
    assert not any(link["code"] in text or NEW in text for text in texts)


def test_one_of_two_completions_at_once_succeeds(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("alice")
    link, other = link_of(inbox), "the one of the other request"
    statuses = []

    def hash_while_the_other_completes(password: str) -> str:
        monkeypatch.undo()
        statuses.append(post("/completion", **link, new_password=other).status_code)
        return make_password(password)

    monkeypatch.setattr(password_resets, "make_password", hash_while_the_other_completes)
    refused = post("/completion", **link, new_password=NEW)
    assert statuses == [204] and refused.status_code == 401
    assert has_password("alice", other)


def test_mail_that_was_not_accepted_can_be_asked_for_again_at_once(inbox: Inbox) -> None:
    User.objects.filter(username="alice").update(email="alice@refused.example")
    assert ask("alice").status_code == 202 and inbox.messages == []
    assert not AuditRecord.objects.filter(after__password_code="sent").exists()
    User.objects.filter(username="alice").update(email="alice@example.org")
    ask("alice")
    assert len(inbox.messages) == 1


def test_many_requests_wait_in_order_and_are_bounded(inbox: Inbox) -> None:
    post("", username="alice")
    for n in range(password_resets.MAX_WAITING + 20):
        post("", username=f"absent-{n}")
    assert len(password_resets._waiting) == password_resets.MAX_WAITING
    password_resets.send_waiting()
    assert not password_resets._waiting and len(inbox.messages) == 1


def test_response_is_the_same_for_accounts_that_get_no_mail(inbox: Inbox, cast: Cast) -> None:
    User.objects.filter(username="bob").update(email="bob@example.org", source=Source.LDAP)
    User.objects.filter(username="charlie").update(email="c@example.org", is_active=False)
    User.objects.filter(username="viola").update(
        email="v@example.org", password=make_password(None)
    )
    expected = ask("alice")
    for name in ("bob", "charlie", "viola", "olga", "absent", "Größe"):
        refused = ask(name)
        assert (refused.status_code, refused.content) == (202, expected.content)
    assert inbox.recipients == ["alice@example.org"]


def test_account_gets_one_mail_in_five_minutes(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        ask("alice")
    assert len(inbox.messages) == 1
    now = password_resets.time.monotonic() + password_resets.PAUSE_SECONDS
    monkeypatch.setattr(password_resets.time, "monotonic", lambda: now)
    ask("alice")
    assert len(inbox.messages) == 2


@pytest.mark.parametrize("change", ["user", "code", "time", "password", "address", "inactive"])
def test_code_ends_with_any_change(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    ask("alice")
    link = link_of(inbox)
    alice = User.objects.filter(username="alice")
    if change == "user":
        link["username"] = "bob"
    elif change == "code":
        link["code"] = link["code"][:-1] + ("a" if link["code"][-1] != "a" else "b")
    elif change == "time":
        later = timezone.localtime().replace(tzinfo=None) + timedelta(hours=1, seconds=2)
        generator = password_resets.default_token_generator
        monkeypatch.setattr(generator, "_now", lambda: later)
    elif change == "password":
        alice.update(password=make_password("set by an administrator"))
    elif change == "address":
        alice.update(email="elsewhere@example.org")
    else:
        alice.update(is_active=False)
    refused = post("/completion", **link, new_password=NEW)
    assert refused.status_code == 401 and body(refused)["code"] == "unauthenticated"
    assert not has_password("alice", NEW)


def test_weak_password_is_refused_and_the_code_stays(inbox: Inbox) -> None:
    ask("alice")
    link = link_of(inbox)
    assert post("/completion", **link, new_password="short").status_code == 400
    assert post("/completion", **link, new_password=NEW).status_code == 204


def test_second_factor_stays(inbox: Inbox, cast: Cast) -> None:
    second_factors.begin(user=cast.alice)
    User.objects.filter(username="alice").update(second_factor_since=timezone.now())
    ask("alice")
    assert post("/completion", **link_of(inbox), new_password=NEW).status_code == 204
    login = {"username": "alice", "password": NEW}
    refused = APIClient().post("/api/v1/login", login, format="json")
    assert body(refused)["code"] == "second_factor_required"


def test_other_mail_server_needs_all_privileges(
    cast: Cast, client_of: Callable[[User | None], Any]
) -> None:
    CustomRole.objects.create(name="settings", privileges=["settings.manage"])
    RoleBinding.objects.create(user=cast.bob, role="settings")
    mail = {"host": "mail.example.net", "sender": "busbar@example.net"}

    def change(user: User, **values: object) -> Any:
        return client_of(user).patch("/api/v1/settings", {"mail": values}, format="json")

    assert body(change(cast.bob, **mail))["code"] == "denied"
    assert change(cast.admin, **mail).status_code == 200
    for name, value in (("host", ""), ("port", 25), ("security", "none"), ("host", None)):
        assert body(change(cast.bob, **{name: value}))["code"] == "denied"
    assert change(cast.bob, sender="gpus@example.net", host=mail["host"]).status_code == 200


def test_nothing_is_offered_without_a_mail_service(cast: Cast) -> None:
    live_settings.replace({})
    assert post("", username="alice").status_code == 409
    options: Callable[[str], Any] = APIClient().get
    assert body(options("/api/v1/sign-in-options"))["has_password_resets"] is False
