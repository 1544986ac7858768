"""Sending of mail through the SMTP server of the settings."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from appliance.runtime.live_settings import current
from appliance.runtime.setting_sections import MailSettings


class MailError(Exception):
    """A message was not accepted. The text says why, for administrators."""


def is_set_up() -> bool:
    return bool(current(MailSettings).host)


def send_mail(*, to: str, subject: str, text: str) -> None:
    """Send a message. Blocks up to a few timeouts of the settings; not for event loops.

    Raises MailError if no mail service is set up, or if it does not accept the message.
    """
    service = current(MailSettings)
    if not service.host:
        raise MailError("no mail server is set up: set `mail.host` in the settings")
    try:
        message = compose(service.sender, to, subject, text)
        with connect(service) as server:
            if service.username:
                server.login(service.username, service.password.get_secret_value())
            server.send_message(message)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise MailError(f"{service.host}:{service.port}: {reason(error)}") from error


def compose(sender: str, to: str, subject: str, text: str) -> EmailMessage:
    """Return a message. Raises ValueError for a line break in the address or subject."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, to, subject
    message["Date"] = formatdate(usegmt=True)
    message["Message-ID"] = make_msgid(domain=sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"  # no out-of-office replies
    message.set_content(text)
    return message


def connect(service: MailSettings) -> smtplib.SMTP:
    """Connect with the protection of the settings. The certificate of the server is verified."""
    context = ssl.create_default_context(cadata=service.ca_certificates or None)
    timeout = service.timeout_seconds
    if service.security == "tls":
        return smtplib.SMTP_SSL(service.host, service.port, timeout=timeout, context=context)
    server = smtplib.SMTP(service.host, service.port, timeout=timeout)
    if service.security == "starttls":
        try:
            server.starttls(context=context)
        except Exception:
            server.close()
            raise
    return server


def reason(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        text = error.smtp_error
        reply = text.decode(errors="replace") if isinstance(text, bytes) else text
        return f"{error.smtp_code} {reply}".strip()
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "the server refused the recipient"
    return str(error) or type(error).__name__
