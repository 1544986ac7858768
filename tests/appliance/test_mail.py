"""Mail through a real SMTP server: encryption, passwords, and failures that say why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.accounts.models import User
from appliance.configuration.mail import MailError, is_set_up, send_mail
from appliance.fleet.certificates import load_authority
from appliance.runtime import live_settings
from appliance.runtime.setting_sections import MailSettings
from tests.appliance.conftest import Cast, body
from tests.appliance.smtp_server import smtp_server
from tests.ports import port

Clients = Callable[[User | None], Any]
TO = "alice@example.org"


def use(mail: dict[str, Any]) -> None:
    live_settings.replace({MailSettings: MailSettings(**mail)})


@pytest.mark.parametrize("with_password", [False, True])
@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_message_arrives_encrypted(tmp_path: Path, security: str, with_password: bool) -> None:
    with smtp_server(tmp_path, port(91), security, with_password=with_password) as (inbox, mail):
        use(mail)
        assert is_set_up()
        send_mail(to=TO, subject="Grüße", text="Größer\n")
    (message,) = inbox.messages
    assert inbox.was_encrypted == [True] and inbox.recipients == [TO]
    assert message["Subject"] == "Grüße" and message["From"] == "busbar@example.org"
    assert (
        message.get_content().strip() == "Größer" and message["Auto-Submitted"] == "auto-generated"
    )


def test_message_arrives_without_encryption_if_the_settings_say_so(tmp_path: Path) -> None:
    with smtp_server(tmp_path, port(91), "none") as (inbox, mail):
        use(mail)
        send_mail(to=TO, subject="s", text="t")
    assert inbox.was_encrypted == [False]


def refusal(**changes: Any) -> str:
    with pytest.raises(MailError) as caught:
        send_mail(to=changes.pop("to", TO), subject="s", text="t", **changes)
    return str(caught.value)


def test_wrong_password_and_refused_recipient_are_named(tmp_path: Path) -> None:
    with smtp_server(tmp_path, port(91), "starttls", with_password=True) as (inbox, mail):
        use(mail | {"password": "wrong"})
        assert "535" in refusal()
        use(mail)
        assert "refused the recipient" in refusal(to="x@refused.example")
    assert inbox.messages == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_server_with_a_certificate_of_another_ca_gets_neither_password_nor_message(
    tmp_path: Path, security: str
) -> None:
    (tmp_path / "other").mkdir()
    load_authority(tmp_path / "other")
    with smtp_server(tmp_path, port(91), security, with_password=True) as (inbox, mail):
        use(mail | {"ca_certificates": (tmp_path / "other" / "ca.pem").read_text()})
        assert "certificate verify failed" in refusal()
        use(mail | {"ca_certificates": ""})
        assert "certificate verify failed" in refusal()
    assert inbox.messages == []


def test_server_without_starttls_gets_nothing(tmp_path: Path) -> None:
    with smtp_server(tmp_path, port(91), "none") as (inbox, mail):
        use(mail | {"security": "starttls"})
        assert "STARTTLS" in refusal()
    assert inbox.messages == []


def test_closed_port_and_missing_settings_are_named() -> None:
    use({"host": "127.0.0.1", "port": port(92), "sender": "b@example.org", "security": "none"})
    assert f"127.0.0.1:{port(92)}" in refusal()
    use({})
    assert "no mail server is set up" in refusal()


@pytest.mark.parametrize("address", ["a@b\r\nBcc: c@d", "a\n@b"])
def test_line_break_in_an_address_makes_no_header(tmp_path: Path, address: str) -> None:
    with smtp_server(tmp_path, port(91), "none") as (inbox, mail):
        use(mail)
        refusal(to=address)
    assert inbox.messages == []


@pytest.mark.parametrize("text", ["x", "\u00a9"])
def test_damaged_ca_certificates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="PEM"):
        use({"host": "127.0.0.1", "sender": "b@example.org", "ca_certificates": text})


def test_test_message_reports_what_the_server_replied(
    cast: Cast, client_of: Clients, tmp_path: Path
) -> None:
    admin = client_of(cast.admin)
    with smtp_server(tmp_path, port(91), "starttls", with_password=True) as (inbox, mail):
        change = admin.patch("/api/v1/settings", {"mail": mail}, format="json")
        assert change.status_code == 200, change.content
        sent = admin.post("/api/v1/settings/test-mail", {"to": TO}, format="json")
        assert sent.status_code == 204, sent.content
        refused = admin.post(
            "/api/v1/settings/test-mail", {"to": "x@refused.example"}, format="json"
        )
    assert refused.status_code == 409 and body(refused)["code"] == "mail_failed"
    assert inbox.recipients == [TO] and "works" in inbox.messages[0].get_content()
