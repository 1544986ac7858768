"""A real SMTP server for tests, with STARTTLS, TLS or neither, and a password if wanted."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from appliance.fleet.certificates import load_authority, server_certificate

USERNAME, PASSWORD = "busbar", "hunter2hunter2"


@dataclass
class Inbox:
    """Keeps what arrives. Refuses recipients of the domain `refused.example`."""

    messages: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    was_encrypted: list[bool] = field(default_factory=list)

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if address.endswith("@refused.example"):
            return "550 no such user here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        self.recipients += envelope.rcpt_tos
        is_tls = server.transport.get_extra_info("ssl_object") is not None
        self.was_encrypted.append(is_tls)
        return "250 accepted"


def authenticate(*args: Any) -> AuthResult:
    data = args[-1]
    right = isinstance(data, LoginPassword) and (data.login, data.password) == (
        USERNAME.encode(),
        PASSWORD.encode(),
    )
    return AuthResult(success=right, handled=False)


@contextmanager
def smtp_server(
    folder: Path, port: int, security: str, *, with_password: bool = False
) -> Iterator[tuple[Inbox, dict[str, Any]]]:
    """Run a server and yield its inbox and the settings of the section `mail` that fit it."""
    certificate, key = server_certificate(
        load_authority(folder), folder, ["127.0.0.1"], timedelta(days=1)
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    inbox = Inbox()
    encryption: dict[str, dict[str, Any]] = {
        "tls": {"ssl_context": context},
        "starttls": {"tls_context": context},
    }
    server = Controller(
        inbox,
        hostname="127.0.0.1",
        port=port,
        authenticator=authenticate,
        auth_required=with_password,
        auth_require_tls=security == "starttls",  # aiosmtpd does not count TLS from the start
        require_starttls=security == "starttls",
        **encryption.get(security, {}),
    )
    server.start()
    credentials = {"username": USERNAME, "password": PASSWORD} if with_password else {}
    try:
        yield (
            inbox,
            {
                "host": "127.0.0.1",
                "port": port,
                "security": security,
                "sender": "busbar@example.org",
                "ca_certificates": (folder / "ca.pem").read_text(),
                **credentials,
            },
        )
    finally:
        server.stop()
