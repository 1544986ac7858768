"""Sections of the settings. A new setting is a field of a section here."""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from appliance.runtime.backup_folder import refusal_of_folder
from appliance.runtime.live_settings import MULTILINE, Section, current, from_environment

DESTINATION = re.compile(r"/[^\n]*|sftp://[^\s:@/]+@[^\s@/]+(/[^\n]*)?")
"""A folder for backups: an absolute path, or an SFTP server without a password in its URL."""
DOMAIN = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]")


class AllocationSettings(Section):
    """Settings of the lifetime of allocations and of the order of the queue."""

    section: ClassVar[str] = "allocations"

    hold_seconds: float = from_environment("hold_seconds", ge=1, le=86_400)
    """An allocation without a session or heartbeat for this time is released."""
    preemption_grace_seconds: float = from_environment("preemption_grace_seconds", ge=0, le=86_400)
    """The owner has this time between the notice and the end of a preempted allocation."""
    fair_share_half_life_seconds: float = from_environment(
        "fair_share_half_life_seconds", ge=60, le=31_536_000
    )
    """The usage of a project in the fair-share order halves in this time."""


class NodeSettings(Section):
    """Settings of the supervision and the enrolment of nodes."""

    section: ClassVar[str] = "nodes"

    unreachable_seconds: float = from_environment("unreachable_seconds", ge=2, le=3600)
    """A node that has not sent a heartbeat for this time is unreachable."""
    certificate_seconds: float = from_environment("node_certificate_seconds", ge=60, le=31_536_000)
    """New certificates of nodes are valid for this time. Agents renew them after two thirds."""
    ssh_seconds: float = from_environment("ssh_seconds", ge=0.5, le=300)
    """Each step of the SSH handshake fails after this time."""


class ApplianceSettings(Section):
    """Settings of the certificate and the disk of the appliance."""

    section: ClassVar[str] = "appliance"

    server_certificate_seconds: float = from_environment(
        "server_certificate_seconds", ge=3600, le=63_072_000
    )
    """New certificates of the HTTPS and agent ports are valid for this time."""
    disk_low_mib: int = from_environment("disk_low_mib", ge=0, le=1 << 40)
    """`/readyz` and an event warn when the data folder has less free space than this."""
    disk_full_mib: int = from_environment("disk_full_mib", ge=0, le=1 << 40)
    """No allocation is granted when the data folder has less free space than this."""


class ConnectionSettings(Section):
    """Limits of connections. The appliance reads them when it starts."""

    section: ClassVar[str] = "connections"

    heartbeat_seconds: float = from_environment("heartbeat_seconds", ge=0.1, le=60)
    """Agents send heartbeats and samples at this interval, from the next start."""
    max_connections: int = from_environment("max_connections", ge=64, le=1_000_000)
    """The HTTPS port has at most this number of open connections, from the next start."""
    max_anonymous_connections: int = from_environment(
        "max_anonymous_connections", ge=16, le=1_000_000
    )
    """At most this number of connections has no valid token, from the next start."""
    max_anonymous_connections_per_address: int = from_environment(
        "max_anonymous_connections_per_address", ge=16, le=1_000_000
    )
    """At most this number from one address has no valid token, from the next start."""


class RetentionSettings(Section):
    """Settings of the removal of old rows."""

    section: ClassVar[str] = "retention"

    events_days: float = from_environment("retain_events_days", ge=0.01, le=36_500)
    """The appliance keeps events for this number of days."""
    tasks_days: float = from_environment("retain_tasks_days", ge=0.01, le=36_500)
    """The appliance keeps ended tasks and their logs for this number of days."""
    sessions_days: float = from_environment("retain_sessions_days", ge=0.01, le=36_500)
    """The appliance keeps closed sessions for this number of days, at most as their allocation."""
    allocations_days: float = from_environment("retain_allocations_days", ge=0.01, le=36_500)
    """The appliance keeps ended allocations for this number of days, and statistics of waiting as
    long."""
    certificates_days: float = from_environment("retain_certificates_days", ge=31, le=36_500)
    """The appliance keeps expired certificates of nodes for this number of days, 30 of them for
    renewals."""
    tokens_days: float = from_environment("retain_tokens_days", ge=0.01, le=36_500)
    """The appliance keeps expired API tokens and enrolment tokens for this number of days."""
    idempotency_keys_days: float = from_environment(
        "retain_idempotency_keys_days", ge=0.01, le=36_500
    )
    """The appliance keeps the response to an Idempotency-Key for this number of days."""
    audit_days: float = from_environment("retain_audit_days", ge=0.01, le=36_500)
    """The appliance keeps audit records for this number of days. With a syslog server, those that
    were not sent stay."""


class SignInSettings(Section):
    """Settings of the sign-in."""

    section: ClassVar[str] = "sign_in"

    second_factor: Literal["off", "optional", "privileged", "required"] = from_environment(
        "second_factor"
    )
    """A second factor is required of no user (off), of no user but asked of those who have one
    (optional), of people with more privileges than the role user (privileged), or of all people
    (required)."""
    passkey_domain: str = Field("", max_length=253)
    """Passkeys belong to this domain name, under which browsers trust the console's certificate.
    If it is empty, there are no passkeys. Those of another name do not work."""

    @field_validator("passkey_domain")
    @classmethod
    def check_domain(cls, name: str) -> str:
        if name and not (DOMAIN.fullmatch(name) or name == "localhost"):
            raise ValueError(
                "passkey_domain must be a domain name in lower case, such as busbar.example.org; "
                "browsers make no passkeys for addresses"
            )
        return name


class AlarmSettings(Section):
    """Settings of the evaluation of alarms and of their actions."""

    section: ClassVar[str] = "alarms"

    interval_seconds: float = Field(10.0, ge=1, le=3600)
    """All alarm definitions are evaluated at this interval."""
    webhook_networks: tuple[str, ...] = ()
    """Webhooks may go to these networks, such as 127.0.0.0/8, and to all addresses but loopback,
    link-local, metadata and reserved ones."""
    script_user: str = Field("", max_length=32)
    """Scripts of alarms run as this user of the appliance's machine. Empty: scripts are off."""
    script_seconds: float = Field(30.0, ge=1, le=300)
    """A script of an alarm is killed after this time."""

    @model_validator(mode="after")
    def check_networks(self) -> Self:
        for text in self.webhook_networks:
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise ValueError(
                    f"webhook_networks: {text!r} is no network such as 10.1.0.0/16."
                ) from None
        return self


class BackupSettings(Section):
    """Settings of backups. Their keys are chosen on the appliance's machine only."""

    section: ClassVar[str] = "backup"
    receivers: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "sftp_password": ("destination", "sftp_host_key"),
        "sftp_private_key": ("destination", "sftp_host_key"),
    }

    destination: str = Field("", max_length=500)
    """Backups are stored here: the absolute path of a folder that exists, or
    sftp://USER@HOST[:PORT]/FOLDER. A change needs the password or private key again."""
    sftp_host_key: str = Field("", max_length=100, pattern=r"^$|^(SHA256:)?[A-Za-z0-9+/]{43}=?$")
    """The SFTP server has the host key with this fingerprint."""
    sftp_password: SecretStr = SecretStr("")
    """The appliance signs in at the SFTP server with this password if there is no key."""
    sftp_private_key: SecretStr = Field(
        SecretStr(""), max_length=20_000, json_schema_extra=MULTILINE
    )
    """The appliance signs in at the SFTP server with this private key (OpenSSH or PEM)."""
    interval_hours: float = Field(24.0, ge=0, le=8760)
    """A backup is made at this interval if there is a destination. 0: none is made by itself."""
    keep_count: int = Field(14, ge=1, le=10_000)
    """This number of the newest backups is kept at the destination; older ones are deleted."""
    old_after_hours: float = Field(48.0, ge=1, le=87_600)
    """The last good backup is old after this time: the state `backup_old` of alarms."""

    @model_validator(mode="after")
    def check_destination(self) -> Self:
        if self.destination and not DESTINATION.fullmatch(self.destination):
            raise ValueError(
                "destination must be an absolute path or sftp://USER@HOST[:PORT]/FOLDER"
            )
        return self

    @classmethod
    def require_usable(cls, changes: Mapping[str, Any]) -> None:
        folder = changes.get("destination") or ""
        if not folder.startswith("/") or folder == current(cls).destination:
            return  # a form may repeat the stored folder while it is not mounted
        if refusal := refusal_of_folder(folder):
            raise ValueError(f"destination: {refusal}")


class NotificationSettings(Section):
    """Settings of mails to users about allocations and alarms. Users can turn each kind off."""

    section: ClassVar[str] = "notifications"

    start: bool = True
    """The owner is told when a request that has waited gets its GPUs."""
    start_after_queued_seconds: float = Field(60.0, ge=0, le=31_536_000)
    """The start is told of requests that have waited this long."""
    lifetime: bool = True
    """The owner is told before the lifetime of an allocation ends."""
    lifetime_notice_seconds: float = Field(1800.0, ge=60, le=604_800)
    """The owner is told this long before the end, and at the end of a shorter lifetime."""
    alarm: bool = True
    """Users whom an alarm definition names are told when an alarm is raised or cleared."""
    reclaim: bool = True
    """The owner is told when the appliance takes GPUs back."""


class MailSettings(Section):
    """Settings of the mail service."""

    section: ClassVar[str] = "mail"
    receivers: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "password": ("host", "port", "ca_certificates")
    }

    host: str = Field("", max_length=255)
    """This is the name or address of the SMTP server. If it is empty, no mail is sent. A change of
    host, port or ca_certificates needs the password again."""
    port: int = Field(587, ge=1, le=65535)
    """The SMTP server has this port."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """STARTTLS, TLS from the first byte, or none protects the connection."""
    ca_certificates: str = Field("", max_length=100_000, json_schema_extra=MULTILINE)
    """These CA certificates verify the server (PEM). If empty, those of the operating system do."""
    username: str = Field("", max_length=255)
    """The appliance signs in at the SMTP server with this name. If it is empty, it does not."""
    password: SecretStr = SecretStr("")
    """The appliance signs in at the SMTP server with this password."""
    sender: str = Field("", max_length=255, pattern=r"^$|^[^@\s<>]+@[^@\s<>]+$")
    """Mail is sent from this address."""
    timeout_seconds: float = Field(10.0, ge=1, le=60)
    """Each step of the SMTP exchange fails after this time."""

    @model_validator(mode="after")
    def check_whole(self) -> Self:
        if self.host and not self.sender:
            raise ValueError("a mail server needs a sender, the address from which mail is sent")
        if self.username and self.security == "none":
            raise ValueError("a password needs a protected connection: security starttls or tls")
        if self.ca_certificates:  # else the system's would be read, which takes 30 ms
            try:
                ssl.create_default_context(cadata=self.ca_certificates)
            except (ssl.SSLError, TypeError):  # TypeError: characters that are not ASCII
                raise ValueError("ca_certificates has no certificate in PEM format") from None
        return self
